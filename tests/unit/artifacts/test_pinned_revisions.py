"""Revisions in source URIs: what they pin, and what is refused before a pod starts."""

import pytest
from support.artifacts import Cluster, artifact, namespace, seen, source, template, template_cache, value_of
from support.artifacts import plan_of as plan_in

from aim_artifacts.source import Source, SourceError, effective_model_id, parse_source, pinned_revision
from aim_domain.parts import ARTIFACT_JOBS, ARTIFACTS, TEMPLATE_CACHES, TEMPLATES

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.spec("AR-825", "AR-111")
@pytest.mark.parametrize(
    ("uri", "path", "revision"),
    [
        ("hf://Qwen/Qwen3-32B", "Qwen/Qwen3-32B", ""),
        ("hf://Qwen/Qwen3-32B/", "Qwen/Qwen3-32B", ""),
        (f"hf://Qwen/Qwen3-32B@{COMMIT}", "Qwen/Qwen3-32B", COMMIT),
        ("hf://Qwen/Qwen3-32B:a1b2c3d", "Qwen/Qwen3-32B", "a1b2c3d"),
        ("hf://Qwen/Qwen3-32B@main/", "Qwen/Qwen3-32B", "main"),
        ("hf://gpt2@v1.0", "gpt2", "v1.0"),
        ("hf://gpt2:v1.0", "gpt2", "v1.0"),
        ("hf://org/name@refs/pr/7", "org/name", "refs/pr/7"),
        ("hf://org/name@feature/x-1_y", "org/name", "feature/x-1_y"),
    ],
)
def test_a_revision_is_taken_from_the_uri(uri: str, path: str, revision: str) -> None:
    found = parse_source(uri)
    assert (found.path, found.revision) == (path, revision)
    assert effective_model_id(None, uri) == path
    assert pinned_revision(uri) == revision
    assert parse_source(str(found)) == found


@pytest.mark.spec("AR-825")
def test_s3_knows_no_revision() -> None:
    assert parse_source("s3://bucket/a@b:c") == Source(parse_source("s3://b/c").scheme, "bucket/a@b:c")
    assert pinned_revision("s3://bucket/a@b") == ""


@pytest.mark.spec("AR-827", "AR-828")
def test_a_revision_that_cannot_exist_is_not_in_the_status() -> None:
    # The definition has room for 256 characters of one.
    assert pinned_revision("hf://a/b@" + "x" * 255) == "x" * 255
    assert pinned_revision("hf://a/b@" + "x" * 256) == ""


REFUSED = [
    "hf://org/name@",
    "hf://org/name:",
    "hf://org/name@a@b",
    "hf://org/name@a:b",
    "hf://org/name@../x",
    "hf://org/name@a..b",
    "hf://org/name@/main",
    "hf://org/name@-x",
    "hf://org/name@a//b",
    f"hf://org/name@{'a' * 256}",
    "hf://@main",
    "hf://org//name",
    "hf://org/name?x",
    "hf://org/name/sub/folder",
    "hf://org/name/sub@main",
]


@pytest.mark.spec("AR-828")
@pytest.mark.parametrize("uri", REFUSED)
def test_what_cannot_exist_is_refused_and_starts_no_pod(uri: str) -> None:
    with pytest.raises(SourceError, match=r"hf://<organisation>/<name>"):
        parse_source(uri)
    plan = plan_in(seen(artifact(uri=uri), namespace()), ARTIFACTS)
    assert value_of(plan) == "Failed"
    assert not [child for child in plan.children if child.part is ARTIFACT_JOBS]


@pytest.mark.spec("AR-827")
@pytest.mark.parametrize(("uri", "revision"), [("hf://org/name@v2", "v2"), ("hf://org/name", None)])
def test_the_revision_is_in_the_status(uri: str, revision: str | None) -> None:
    plan = plan_in(seen(artifact(uri=uri), namespace()), ARTIFACTS)
    assert plan.status is not None
    assert plan.status.get("revision") == revision


@pytest.mark.spec("AR-825")
def test_other_revisions_are_other_artifacts() -> None:
    known = Cluster(template_cache(), template(source(uri="hf://org/name@v1", size="2Gi")), namespace())
    known.settle(TEMPLATE_CACHES, "qwen")
    (first,) = known.names(ARTIFACTS)
    other = template(source(uri="hf://org/name@v2", size="2Gi"))
    known.change(TEMPLATES, "qwen", status=other["status"])
    known.settle(TEMPLATE_CACHES, "qwen")
    assert len(set(known.names(ARTIFACTS)) | {first}) == 2
