"""Selector texts: grammar, registry, wildcards, exclusions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aim_model_sync.codes import SelectorError, SyncCode
from aim_model_sync.selectors import Selector, SelectorText, resolve, selector_texts
from aim_model_sync.wildcards import literal_owner, matches
from aim_shared.api.cluster_model_source import AIMClusterModelSourceSpec

DIGEST = "sha256:" + "ab" * 32


def selector(text: str, registry: str = "docker.io", *, images: bool = False, **more: tuple[str, ...]) -> Selector:
    return resolve(SelectorText(text=text, wildcards=not images, **more), registry)


def refusal(text: str, registry: str = "docker.io", *, images: bool = False, **more: tuple[str, ...]) -> SelectorError:
    with pytest.raises(SelectorError) as caught:
        selector(text, registry, images=images, **more)
    return caught.value


@pytest.mark.spec(
    "MS-039", "MS-040", "MS-041", "MS-042", "MS-043", "MS-044", "MS-045", "MS-046", "MS-047", "MS-048", "MS-049",
    "MS-050", "MS-054", "MS-055", "MS-056", "MS-057", "MS-058", "MS-059", "MS-067", "MS-068",
    *(f"MS-S{number:03}" for number in range(1, 14)),
)  # fmt: skip
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


@pytest.mark.spec("MS-055", "MS-060", "MS-S013")
def test_a_digest_pins_and_wins_over_the_tag() -> None:
    found = selector(f"org/repo:1.0@{DIGEST}")
    assert found.is_pinned
    assert str(found.pinned_image) == f"org/repo@{DIGEST}"


@pytest.mark.spec("MS-046", "MS-051", "MS-052", "MS-053", "MS-055", "MS-062", "MS-066", "MS-262", "MS-S014")
@pytest.mark.parametrize(
    "text",
    [
        "Org/Repo:1.0", "org/repo:", "https://ghcr.io/org/repo", "org/repo:1.*", "*.io/org/x", "  ", "org /repo",
        "org/repo:-x", "org//repo", "org/repo@sha256:12", "org/repo?x", "/org/repo", "org/repo/",
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


@pytest.mark.spec("MS-027")
@pytest.mark.parametrize("registry", ["https://ghcr.io", "ghcr.io/org", "ghcr.io/", "gh cr.io", "*.io"])
def test_a_bad_registry_fails_only_what_depends_on_it(registry: str) -> None:
    assert refusal("org/repo", registry).code is SyncCode.INVALID_SELECTOR
    assert selector("quay.io/org/repo", registry).repository.registry == "quay.io"


@pytest.mark.spec("MS-069", "MS-264")
@pytest.mark.parametrize("text", ["*", "*/aim-llama", "am*/x", "aim-*"])
@pytest.mark.parametrize("registry", ["docker.io", "ghcr.io", "index.docker.io"])
def test_registries_that_list_per_owner_need_one(text: str, registry: str) -> None:
    assert refusal(text, registry).code is SyncCode.WILDCARD_NAMESPACE_REQUIRED
    assert selector(text, "registry.example.com").is_wildcard


@pytest.mark.spec("MS-073", "MS-037", "MS-100")
def test_constraints_do_not_touch_pinned_selectors() -> None:
    assert selector("org/repo:1.0.0", versions=("nonsense",)).is_pinned
    assert refusal("org/repo", versions=("nonsense",)).code is SyncCode.INVALID_VERSION_CONSTRAINT


@pytest.mark.spec("MS-065", *(f"MS-S{number:03}" for number in range(19, 27)))
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


@pytest.mark.spec("MS-108")
def test_signatures_are_no_candidates() -> None:
    found = selector("org/repo")
    digest_tag = "sha256-" + "ab" * 32
    assert [tag for tag in (digest_tag, f"{digest_tag}.sig", f"{digest_tag}.att") if found.selects_tag(tag)] == []
    assert found.selects_tag("sha256-abc")


@pytest.mark.spec("MS-067", "MS-S012")
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
