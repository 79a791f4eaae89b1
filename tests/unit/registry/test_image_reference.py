"""Parsing, writing and comparing image references."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oci_registry import (
    ImageReference,
    InvalidReferenceError,
    Repository,
    canonical_registry,
    canonical_repository,
    parse_image,
    parse_parts,
)
from oci_registry.image_reference import same_image

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.spec("MS-047", "MS-048", "MS-054", "MS-057", "MS-S006")
@pytest.mark.parametrize(
    ("text", "registry", "repository", "tag"),
    [
        ("org/repo:tag", None, "org/repo", "tag"),
        ("org/repo", None, "org/repo", None),
        ("repo:1.0", None, "repo", "1.0"),
        ("ghcr.io/org/repo:1", "ghcr.io", "org/repo", "1"),
        ("GHCR.IO/org/repo", "ghcr.io", "org/repo", None),
        ("localhost/team/app", "localhost", "team/app", None),
        ("localhost:5000/team/app", "localhost:5000", "team/app", None),
        ("registry:5000/app:1", "registry:5000", "app", "1"),
        ("[::1]:5000/app:1", "[::1]:5000", "app", "1"),
        ("docker.io/library/ubuntu:latest", "docker.io", "library/ubuntu", "latest"),
        ("  org/repo:tag\n", None, "org/repo", "tag"),
    ],
)
def test_parts(text: str, registry: str | None, repository: str, tag: str | None) -> None:
    parts = parse_parts(text)
    assert (parts.registry, parts.repository, parts.tag, parts.digest) == (registry, repository, tag, None)
    assert parts.is_pinned is (tag is not None)


@pytest.mark.spec("MS-055")
@pytest.mark.parametrize("text", [f"org/repo@{DIGEST}", f"org/repo:1.0@{DIGEST}"])
def test_a_digest_pins_and_wins_over_the_tag(text: str) -> None:
    parts = parse_parts(text)
    assert (parts.tag, parts.digest, parts.is_pinned) == (None, DIGEST, True)
    assert str(parse_image(text)) == f"org/repo@{DIGEST}"


@pytest.mark.spec("MS-046", "MS-051", "MS-052", "MS-053", "MS-055", "MS-064", "MS-066", "DI-081")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "https://ghcr.io/org/repo",
        "org/repo name",
        "org/repo?x=1",
        "org/repo#x",
        "org/repo:",
        "org/repo:.1",
        "org/repo:-1",
        "org/repo:" + "t" * 129,
        "Org/repo",
        "/org/repo",
        "org//repo",
        "org/repo/",
        "r",
        "a/" + "b" * 254,
        "org/repo@sha256:abc",
        "org/repo@sha512:" + "0" * 128,
        f"org/repo@{DIGEST.upper()}",
        "org/repo*",
        "org/repo:1.*",
        "*.io/org/repo",
        "ghcr.io:port/org/repo",
    ],
)
def test_what_is_no_reference_says_so(text: str) -> None:
    with pytest.raises(InvalidReferenceError, match="image reference"):
        parse_parts(text)


@pytest.mark.spec("MS-044", "MS-066", "MS-067")
def test_wildcards_only_in_the_repository() -> None:
    assert parse_parts("org/aim-*:1.0.0", wildcards=True).repository == "org/aim-*"
    assert parse_parts("localhost:5000/*", wildcards=True).registry == "localhost:5000"
    for text in ("*.io/org/x", "org/x:1.*", "org/x:*"):
        with pytest.raises(InvalidReferenceError):
            parse_parts(text, wildcards=True)


@pytest.mark.spec("MS-056")
@pytest.mark.parametrize(
    "host",
    [
        "",
        "docker.io",
        "Docker.IO",
        "index.docker.io",
        "registry-1.docker.io",
        "registry.hub.docker.com",
        "hub.docker.com",
    ],
)
def test_docker_hub_has_one_spelling(host: str) -> None:
    assert canonical_registry(host) == "docker.io"


@pytest.mark.spec("MS-058", "MS-059")
def test_the_implied_library_is_only_on_docker_hub() -> None:
    assert canonical_repository("index.docker.io", "ubuntu") == Repository("docker.io", "library/ubuntu")
    assert canonical_repository("ghcr.io", "ubuntu") == Repository("ghcr.io", "ubuntu")
    assert parse_parts("ubuntu").in_registry("ghcr.io") == Repository("ghcr.io", "ubuntu")
    assert parse_parts("docker.io/ubuntu").in_registry("ghcr.io") == Repository("docker.io", "library/ubuntu")


@pytest.mark.spec("MS-060", "MS-S015", "MS-S016", "MS-S017", "MS-S018")
@pytest.mark.parametrize(
    ("registry", "repository", "tag", "uri"),
    [
        ("ghcr.io", "org/model", "1.0.0", "ghcr.io/org/model:1.0.0"),
        ("docker.io", "library/ubuntu", "22.04", "library/ubuntu:22.04"),
        ("", "org/model", "1.0.0", "org/model:1.0.0"),
        ("my-registry.example.com", "team/app", "latest", "my-registry.example.com/team/app:latest"),
    ],
)
def test_image_uri(registry: str, repository: str, tag: str, uri: str) -> None:
    assert str(ImageReference(canonical_repository(registry, repository), tag)) == uri


@pytest.mark.spec("DI-080")
def test_an_image_without_tag_is_latest() -> None:
    assert parse_image("ubuntu") == ImageReference(Repository("docker.io", "library/ubuntu"), "latest")
    assert parse_image("a/b") == parse_image("a/b:latest")


@pytest.mark.spec("MS-061")
def test_same_image() -> None:
    spellings = ["docker.io/a/b:1", "index.docker.io/a/b:1", "a/b:1"]
    assert all(same_image(left, right) for left in spellings for right in spellings)
    assert not same_image("a/b:1", "a/b:2")
    assert not same_image("a/b:1", "ghcr.io/a/b:1")
    assert not same_image("A/B:1", "a/b:1")
    assert same_image("A/B", "A/B")


COMPONENT = st.text("abz09_-", min_size=2, max_size=10)


@pytest.mark.spec("MS-060", "MS-061")
@settings(max_examples=50)
@given(
    registry=st.sampled_from(["docker.io", "ghcr.io", "localhost:5000", "10.0.0.1:80"]),
    path=st.lists(COMPONENT, min_size=1, max_size=3).filter(lambda parts: parts[0] != "localhost"),
    tag=st.text("aZ0_", min_size=1, max_size=20),
)
def test_what_is_written_is_read_back(registry: str, path: list[str], tag: str) -> None:
    image = ImageReference(canonical_repository(registry, "/".join(path)), tag)
    assert parse_image(str(image)) == image
