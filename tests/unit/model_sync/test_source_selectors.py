"""Selector texts: grammar, registry, wildcards, exclusions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aim_domain import AIMClusterModelSourceSpec
from aim_model_sync.codes import SelectorError, SyncCode
from aim_model_sync.selectors import (
    Selector,
    SelectorText,
    literal_owner,
    matches,
    repositories_of,
    resolve,
    selector_texts,
)
from controller_runtime import JsonObject
from oci_registry import ImageReference, parse_image

DIGEST = "sha256:" + "ab" * 32


def selector(text: str, registry: str = "docker.io", *, images: bool = False, **more: tuple[str, ...]) -> Selector:
    return resolve(SelectorText(text=text, wildcards=not images, **more), registry)


def refusal(text: str, registry: str = "docker.io", *, images: bool = False, **more: tuple[str, ...]) -> SelectorError:
    with pytest.raises(SelectorError) as caught:
        selector(text, registry, images=images, **more)
    return caught.value


@pytest.mark.spec(
    "MS-038",
    "MS-039",
    "MS-040",
    "MS-041",
    "MS-042",
    "MS-043",
    "MS-044",
    "MS-045",
    "MS-046",
    "MS-047",
    "MS-048",
    "MS-049",
    "MS-050",
    "MS-054",
    "MS-055",
    "MS-056",
    "MS-057",
    "MS-058",
    "MS-059",
    "MS-067",
    "MS-068",
    "MS-S001",
    "MS-S002",
    "MS-S003",
    "MS-S004",
    "MS-S005",
    "MS-S006",
    "MS-S007",
    "MS-S008",
    "MS-S009",
    "MS-S010",
    "MS-S011",
    "MS-S012",
    "MS-S013",
    "MS-P11",
    "MS-P12",
)
@pytest.mark.parametrize(
    ("text", "source", "registry", "repository", "tag"),
    [
        ("silogen/aim-llama", "docker.io", "docker.io", "silogen/aim-llama", None),
        ("silogen/aim-*", "docker.io", "docker.io", "silogen/aim-*", None),
        (" silogen/aim-llama:1.0.0 ", "docker.io", "docker.io", "silogen/aim-llama", "1.0.0"),
        ("ghcr.io/silogen/aim-llama", "docker.io", "ghcr.io", "silogen/aim-llama", None),
        ("GHCR.io/silogen/aim:0.8.1-rc1", "docker.io", "ghcr.io", "silogen/aim", "0.8.1-rc1"),
        ("docker.io/library/ubuntu:latest", "ghcr.io", "docker.io", "library/ubuntu", "latest"),
        ("ghcr.io/silogen/aim-*", "docker.io", "ghcr.io", "silogen/aim-*", None),
        ("ubuntu:22.04", "", "docker.io", "library/ubuntu", "22.04"),
        ("ubuntu", "ghcr.io", "ghcr.io", "ubuntu", None),
        ("localhost:5000/team/app", "docker.io", "localhost:5000", "team/app", None),
        ("localhost/team/app", "docker.io", "localhost", "team/app", None),
        ("localhost:5000/team/app*", "docker.io", "localhost:5000", "team/app*", None),
        ("org/aim-*:1.0.0", "docker.io", "docker.io", "org/aim-*", "1.0.0"),
        ("hub.docker.com/org/a", "ghcr.io", "docker.io", "org/a", None),
    ],
)
def test_golden_table(text: str, source: str, registry: str, repository: str, tag: str | None) -> None:
    found = selector(text, source)
    assert (found.repository.registry, found.repository.path) == (registry, repository)
    assert (found.tag, found.is_wildcard) == (tag, "*" in text)
    assert found.is_pinned is (tag is not None and "*" not in text)


@pytest.mark.spec("MS-055", "MS-060", "MS-S013", "MS-P13")
def test_a_digest_pins_and_wins_over_the_tag() -> None:
    found = selector(f"org/repo:1.0@{DIGEST}")
    assert found.is_pinned
    assert str(found.pinned_image) == f"org/repo@{DIGEST}"


@pytest.mark.spec(
    "CC-308", "MS-046", "MS-051", "MS-052", "MS-053", "MS-055", "MS-062", "MS-066", "MS-262", "MS-S014", "MS-P43"
)
@pytest.mark.parametrize(
    "text",
    [
        "Org/Repo:1.0", "org/repo:", "https://ghcr.io/org/repo", "org/repo:1.*", "*.io/org/x", "  ", "org /repo",
        "org/repo:-x", "org//repo", "quay.io:99999/org/repo", "org/repo@sha256:12", "org/repo?x", "/org/repo",
        "org/repo/",
    ],
)  # fmt: skip
def test_texts_that_select_nothing(text: str) -> None:
    assert refusal(text).code is SyncCode.INVALID_SELECTOR


@pytest.mark.spec("MS-066")
def test_a_star_in_the_tag_points_to_versions() -> None:
    assert "versions" in str(refusal("org/repo:1.*"))


@pytest.mark.spec("MS-064", "MS-S102")
def test_images_take_no_patterns_and_say_where_they_belong() -> None:
    error = refusal("amdenterpriseai/aim-*", images=True)
    assert error.code is SyncCode.INVALID_SELECTOR
    assert "filters" in str(error)


@pytest.mark.spec("CC-308", "MS-027", "MS-P26")
@pytest.mark.parametrize("registry", ["https://ghcr.io", "ghcr.io/org", "ghcr.io/", "gh cr.io", "*.io", "a.b:65536"])
def test_a_bad_registry_fails_only_what_depends_on_it(registry: str) -> None:
    assert refusal("org/repo", registry).code is SyncCode.INVALID_SELECTOR
    assert selector("quay.io/org/repo", registry).repository.registry == "quay.io"


@pytest.mark.spec("MS-069", "MS-264", "MS-P15")
@pytest.mark.parametrize("text", ["*", "*/aim-llama", "am*/x", "aim-*"])
@pytest.mark.parametrize("registry", ["docker.io", "ghcr.io", "index.docker.io"])
def test_registries_that_list_per_owner_need_one(text: str, registry: str) -> None:
    assert refusal(text, registry).code is SyncCode.WILDCARD_NAMESPACE_REQUIRED
    assert selector(text, "registry.example.com").is_wildcard


@pytest.mark.spec("MS-073", "MS-037", "MS-100")
def test_constraints_do_not_touch_pinned_selectors() -> None:
    assert selector("org/repo:1.0.0", versions=("nonsense",)).is_pinned
    assert refusal("org/repo", versions=("nonsense",)).code is SyncCode.INVALID_VERSION_CONSTRAINT


@pytest.mark.spec("MS-065", "MS-S019", "MS-S020", "MS-S021", "MS-S022", "MS-S023", "MS-S024", "MS-S025", "MS-S026")
@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("silogen/aim-llama", "silogen/aim-llama", True),
        ("silogen/aim-llama", "silogen/aim-mistral", False),
        ("silogen/aim-*", "silogen/aim-llama", True),
        ("silogen/aim-*", "otherorg/aim-llama", False),
        ("*/aim-llama", "silogen/aim-llama", True),
        ("silogen/*-llama", "silogen/aim-llama", True),
        ("*/aim-*", "silogen/aim-llama", True),
        ("silogen/aim-*", "silogen/aim-", True),
        ("*", "anything", True),
        ("a*a", "a", False),
        ("a*b*b", "ab", False),
        ("a**b", "a/x/b", True),
        ("a.c*", "abc", False),
    ],
)
def test_patterns(pattern: str, name: str, expected: bool) -> None:
    assert matches(pattern, name) is expected


@given(st.lists(st.text("ab/", max_size=3), min_size=1, max_size=5), st.lists(st.text("ab/", max_size=3), max_size=4))
def test_a_pattern_matches_whatever_fills_its_stars(literals: list[str], fillings: list[str]) -> None:
    gaps = [*fillings, *[""] * len(literals)][: len(literals) - 1]
    name = literals[0] + "".join(gap + literal for gap, literal in zip(gaps, literals[1:], strict=True))
    assert matches("*".join(literals), name)


def test_many_stars_take_no_time() -> None:
    assert not matches("a*" * 250 + "b", "a" * 255)


@pytest.mark.spec("MS-069")
def test_owner_of_a_pattern() -> None:
    assert literal_owner("amdenterpriseai/aim-*") == "amdenterpriseai"
    assert literal_owner("amd*/aim") is None


@pytest.mark.spec("MS-093", "MS-095", "MS-097", "MS-S054", "MS-S055")
def test_exclusions_are_exact_paths_without_registry() -> None:
    found = selector("ghcr.io/silogen/aim-*", exclude=("silogen/aim-base", "silogen/aim-ex*"))
    assert not found.selects_repository("silogen/aim-base")
    assert found.selects_repository("silogen/aim-base2")
    assert found.selects_repository("silogen/aim-extra")
    listed = repositories_of(found, ["silogen/aim-extra", "silogen/aim-base", "silogen/aim-base2", "silogen/aim-extra"])
    assert [one.path for one in listed] == ["silogen/aim-base2", "silogen/aim-extra"]


@pytest.mark.spec("MS-108", "MS-P40")
def test_signatures_are_no_candidates() -> None:
    found = selector("org/repo")
    digest_tag = "sha256-" + "ab" * 32
    assert [tag for tag in (digest_tag, f"{digest_tag}.sig", f"{digest_tag}.att") if found.selects_tag(tag)] == []
    assert found.selects_tag("sha256-abc")


@pytest.mark.spec("MS-067", "MS-S012", "MS-P14")
def test_a_literal_tag_of_a_pattern_is_the_only_one() -> None:
    found = selector("org/aim-*:1.0.0", versions=(">=2.0.0",))
    assert found.selects_tag("1.0.0")
    assert not found.selects_tag("2.0.0")


@pytest.mark.spec("MS-037", "MS-072", "MS-094")
def test_lists_of_a_source_apply_where_a_filter_has_none() -> None:
    spec = AIMClusterModelSourceSpec.model_validate(
        {
            "versions": [">=1"],
            "filters": [{"image": "a/b", "exclude": ["a/c"]}, {"image": "a/d", "versions": ["2.0.0"]}],
        }
    )
    texts = selector_texts(spec)
    assert [one.versions for one in texts] == [(">=1",), ("2.0.0",)]
    assert [one.exclude for one in texts] == [("a/c",), ()]
    images = AIMClusterModelSourceSpec.model_validate({"versions": [">=1"], "images": ["a/b"]})
    assert selector_texts(images) == (SelectorText(text="a/b", versions=(">=1",)),)


AIM = {"image": "amdenterpriseai/aim-*"}


@pytest.mark.spec(
    "MS-037",
    "MS-074",
    "MS-096",
    "MS-S051",
    "MS-S052",
    "MS-S053",
    "MS-S054",
    "MS-S055",
    "MS-S056",
    "MS-S057",
    "MS-S058",
    "MS-S059",
    "MS-S060",
    "MS-S061",
    "MS-S062",
    "MS-S063",
    "MS-S064",
    "MS-S065",
    "MS-S066",
    "MS-S068",
    "MS-S069",
    "MS-S070",
)
@pytest.mark.parametrize(
    ("image", "spec", "expected"),
    [
        ("amdenterpriseai/aim-llama3:1.0.0", {"filters": [{"image": "amdenterpriseai/aim-llama3"}]}, True),
        ("amdenterpriseai/aim-llama3:1.0.0", {"filters": [AIM]}, True),
        ("otherorg/model:1.0.0", {"filters": [AIM]}, False),
        ("amdenterpriseai/aim-base:1.0.0", {"filters": [{**AIM, "exclude": ["amdenterpriseai/aim-base"]}]}, False),
        ("amdenterpriseai/aim-llama3:1.0.0", {"filters": [{**AIM, "exclude": ["amdenterpriseai/aim-base"]}]}, True),
        ("amdenterpriseai/aim-llama3:1.5.0", {"filters": [{**AIM, "versions": [">=1.0.0", "<2.0.0"]}]}, True),
        ("amdenterpriseai/aim-llama3:2.5.0", {"filters": [{**AIM, "versions": [">=1.0.0", "<2.0.0"]}]}, False),
        ("amdenterpriseai/aim-llama3:1.5.0", {"filters": [AIM], "versions": [">=1.0.0"]}, True),
        (
            "amdenterpriseai/aim-llama3:0.9.0",
            {"filters": [{**AIM, "versions": [">=0.8.0"]}], "versions": [">=1.0.0"]},
            True,
        ),
        ("amdenterpriseai/aim-llama3:latest", {"filters": [{**AIM, "versions": [">=1.0.0"]}]}, False),
        ("amdenterpriseai/aim-llama3:latest", {"filters": [AIM]}, True),
        ("ghcr.io/silogen/aim-g:0.8.1-rc1", {"filters": [{"image": "ghcr.io/silogen/aim-g:0.8.1-rc1"}]}, True),
        ("ghcr.io/silogen/aim-g:0.8.2", {"filters": [{"image": "ghcr.io/silogen/aim-g:0.8.1-rc1"}]}, False),
        ("silogen/aim-llama:1.0.0", {"filters": [{"image": "ghcr.io/silogen/aim-llama:1.0.0"}]}, False),
        ("ghcr.io/silogen/aim-llama:1.0.0", {"filters": [{"image": "ghcr.io/silogen/aim-llama"}]}, True),
        ("ghcr.io/silogen/aim-llama3:1.0.0", {"filters": [{"image": "ghcr.io/silogen/aim-*"}]}, True),
        ("silogen/aim-llama3:1.0.0", {"filters": [{"image": "ghcr.io/silogen/aim-*"}]}, False),
        ("otherorg/model:1.0.0", {"filters": [AIM, {"image": "otherorg/*"}]}, True),
        ("thirdorg/model:1.0.0", {"filters": [AIM, {"image": "otherorg/*"}]}, False),
        (
            "amdenterpriseai/aim-llama3:0.9.0",
            {"filters": [{**AIM, "versions": [">=1.0.0"]}, {**AIM, "versions": [">=0.8.0", "<1.0.0"]}]},
            True,
        ),
        ("any/image:1.0.0", {"filters": []}, False),
        ("silogen/aim-llama:1.0.0", {"filters": [{"image": "silogen/aim-llama:1.0.0"}]}, True),
        ("ghcr.io/silogen/a1:1", {"registry": "docker.io", "filters": [{"image": "ghcr.io/silogen/a1:1"}]}, True),
        ("org/a1:1", {"registry": "ghcr.io", "images": ["docker.io/org/a1:1"]}, True),
        ("ghcr.io/org/a1:1", {"registry": "ghcr.io", "images": ["docker.io/org/a1:1"]}, False),
    ],
)
def test_what_a_source_selects(image: str, spec: JsonObject, expected: bool) -> None:
    """The union of all selectors, as far as it can be told without the registry's lists."""
    parsed = AIMClusterModelSourceSpec.model_validate(spec)
    wanted = parse_image(image)
    found = [resolve(text, parsed.registry) for text in selector_texts(parsed)]
    assert any(_selects(one, wanted) for one in found) is expected


def _selects(one: Selector, image: ImageReference) -> bool:
    if one.repository.registry != image.repository.registry or not one.selects_repository(image.repository.path):
        return False
    return one.pinned_image == image if one.is_pinned else one.selects_tag(image.version)
