"""Candidate order, de-duplication, limit, and names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aim_model_sync.candidates import FoundImages, combine, image_of, newest_first
from aim_model_sync.catalogue import choose, model_name
from oci_registry import ImageReference, Repository, parse_image

ONE, TWO = Repository("docker.io", "org/one"), Repository("ghcr.io", "org/two")
GOLDEN = [
    ("ghcr.io", "silogen/aim-llama", "1.0.0", "silogen-aim-llama-1-0-0-201bdd"),
    ("docker.io", "silogen/aim-llama", "1.0.0", "silogen-aim-llama-1-0-0-be7d9f"),
    ("docker.io", "library/ubuntu", "22.04", "library-ubuntu-22-04-7a45e5"),
    (
        "ghcr.io",
        "silogen/aim-mistralai-mistral-small-3.2-24b-instruct-2506",
        "0.8.5",
        "silogen-aim-mistralai-mistral-small-3-2-24b-instru-0-8-5-c6da71",
    ),
    ("ghcr.io", "org/My_Model.Name", "v1.0.0", "org-my-model-name-v1-0-0-d858ec"),
    ("docker.io", "org/model", "latest", "org-model-latest-c045bd"),
    ("docker.io", "org/model", "1.0.0", "org-model-1-0-0-cd4308"),
    ("ghcr.io", "org/model", "1.0.0", "org-model-1-0-0-178b40"),
    ("ghcr.io", "org/model", "2.0.0", "org-model-2-0-0-d4f848"),
    ("ghcr.io", "org/model", "abc123", "org-model-abc123-649acb"),
    ("docker.io", "org/model", "v1.0.0", "org-model-v1-0-0-3ceeea"),
    ("docker.io", "org/model", "V1.0.0", "org-model-v1-0-0-488124"),
    ("docker.io", "amdenterpriseai/aim-qwen-qwen3-32b", "0.8.5", "amdenterpriseai-aim-qwen-qwen3-32b-0-8-5-72f726"),
    (
        "docker.io",
        "amdenterpriseai/aim-deepseek-deepseek-r1",
        "0.8.5",
        "amdenterpriseai-aim-deepseek-deepseek-r1-0-8-5-355166",
    ),
    ("ghcr.io", "amdenterpriseai/aim-qwen-qwen3-32b", "0.8.5", "amdenterpriseai-aim-qwen-qwen3-32b-0-8-5-0e4790"),
    ("ghcr.io", "amdenterpriseai/aim-qwen-qwen3-32b", "0.8.4", "amdenterpriseai-aim-qwen-qwen3-32b-0-8-4-567f1c"),
    (
        "ghcr.io",
        "amdenterpriseai/aim-deepseek-deepseek-r1",
        "0.8.5",
        "amdenterpriseai-aim-deepseek-deepseek-r1-0-8-5-e6c869",
    ),
    (
        "ghcr.io",
        "silogen/aim-google-gemma-3-1b-it",
        "0.8.1-rc1",
        "silogen-aim-google-gemma-3-1b-it-0-8-1-rc1-3b1d6d",
    ),
    ("my-registry.example.com", "team/app", "latest", "team-app-latest-0032e5"),
    ("registry.example.com:5000", "a/b__c", "1.0.0", "a-b--c-1-0-0-1f9830"),
    ("private.registry.io", "myorg/" + "x" * 80, "1.0.0-rc.1", "myorg-" + "x" * 39 + "-1-0-0-rc-1-8acc2a"),
    ("private.registry.io", "myorg/" + "x" * 80, "y" * 100, "myorg-" + "x" * 21 + "-" + "y" * 28 + "-c7745f"),
    ("private.registry.io", "o/---", "___", "o-part-1a353e"),
    ("ghcr.io", "org/model", "sha256:abc123" + "0" * 58, "org-model-abc123-64dbfd"),
]


@pytest.mark.spec(
    "MS-182",
    "MS-183",
    "MS-184",
    "MS-185",
    "MS-186",
    "MS-188",
    "MS-189",
    "MS-190",
    "MS-191",
    "MS-192",
    "MS-193",
    "MS-194",
    "MS-195",
    "MS-196",
    "MS-197",
    "MS-198",
    "MS-199",
    "MS-200",
    "MS-201",
    "MS-202",
    "MS-203",
    "MS-204",
    "MS-205",
    "MS-206",
    "MS-207",
    "MS-208",
    "MS-209",
    "MS-210",
    "MS-211",
    "MS-212",
)
@pytest.mark.parametrize(("registry", "repository", "version", "name"), GOLDEN)
def test_golden_names(registry: str, repository: str, version: str, name: str) -> None:
    assert model_name(image_of(Repository(registry, repository), version)) == name
    assert len(name) <= 63


@pytest.mark.spec("MS-060", "MS-061", "MS-187", "MS-S015", "MS-S016", "MS-S017", "MS-S018")
def test_image_texts() -> None:
    assert str(parse_image("ghcr.io/org/model:1.0.0")) == "ghcr.io/org/model:1.0.0"
    assert str(parse_image("docker.io/library/ubuntu:22.04")) == "library/ubuntu:22.04"
    assert parse_image("index.docker.io/a/b:1") == parse_image("a/b:1") == parse_image("docker.io/a/b:1")


@pytest.mark.spec("MS-174")
def test_versions_come_newest_first_then_other_tags_by_text() -> None:
    tags = ["latest", "1.0.0", "v1.0.0", "1.10.0", "1.2.0-rc1", "dev", "1.2.0"]
    assert newest_first(tags) == ("1.10.0", "1.2.0", "1.2.0-rc1", "1.0.0", "v1.0.0", "dev", "latest")


@pytest.mark.spec("MS-143", "MS-174", "MS-P10")
@given(st.permutations(["latest", "1.0.0", "v1.0.0", "1.0.0-rc.2", "1.0.0-rc.10", "0.9.9", "dev", "10.0.0"]))
def test_the_order_does_not_depend_on_the_registry(tags: list[str]) -> None:
    expected = ("10.0.0", "1.0.0", "v1.0.0", "1.0.0-rc.10", "1.0.0-rc.2", "0.9.9", "dev", "latest")
    assert newest_first(tags) == expected


@pytest.mark.spec("MS-172", "MS-173", "MS-174", "MS-S086", "MS-P09")
def test_the_first_selector_owns_an_image() -> None:
    first = [FoundImages.of(TWO, ("1.0.0",)), FoundImages.of(ONE, ("2.0.0", "1.0.0"))]
    second = [FoundImages.of(ONE, ("3.0.0", "2.0.0"))]
    found = combine([first, second])
    assert found.size == 4
    assert found.by_selector == (
        (FoundImages.of(ONE, ("2.0.0", "1.0.0")), FoundImages.of(TWO, ("1.0.0",))),
        (FoundImages.of(ONE, ("3.0.0",)),),
    )


def test_an_enormous_set_is_counted_but_not_carried() -> None:
    many = tuple(map(str, range(10)))
    found = combine([[FoundImages.of(ONE, many)], [FoundImages.of(TWO, many)]], kept=4)
    assert found.size == 20
    assert found.by_selector == ((FoundImages.of(ONE, many[:4]),), ())


def images(*texts: str) -> list[ImageReference]:
    return [parse_image(text) for text in texts]


@pytest.mark.spec("MS-176", "MS-177", "MS-178", "MS-S082", "MS-S083")
def test_the_first_new_candidates_become_models() -> None:
    candidates = images("o/a:3", "o/a:2", "o/b:1", "o/c:1", "o/d:1")
    choice = choose(
        candidates,
        managed=images("o/a:3"),
        has_model=images("o/b:1").__contains__,
        is_taken=lambda _: False,
        capacity=1,
    )
    assert choice.create == tuple(images("o/a:2"))
    assert choice.withheld == 2


@pytest.mark.spec("MS-233")
def test_a_taken_name_is_a_collision_and_takes_no_room() -> None:
    candidates = images("o/a:1", "o/b:1")
    taken = model_name(candidates[0])
    choice = choose(candidates, managed=(), has_model=lambda _: False, is_taken=taken.__eq__, capacity=1)
    assert choice.collisions == (candidates[0],)
    assert choice.create == (candidates[1],)
    assert choice.withheld == 0


@pytest.mark.spec("MS-178", "MS-S088")
def test_without_room_every_new_candidate_is_withheld() -> None:
    candidates = images("o/a:1", "o/b:1", "o/c:1")
    choice = choose(candidates, managed=(), has_model=lambda _: False, is_taken=lambda _: False, capacity=0)
    assert (choice.create, choice.withheld) == ((), 3)
