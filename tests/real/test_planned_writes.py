"""What the services write is accepted by the real API server with strict validation, and by KServe's webhooks.

The objects are those of every plan that a unit test makes, so that a new test widens this one.
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from support.builders import NAMESPACE
from support.controlplane import RawApi, Reply
from support.model_sources import source
from support.planned_writes import VARIABLE, PlannedWrite, Verb
from support.serving import TEAM

from aim_domain.kinds import (
    AIM_ARTIFACT,
    AIM_CLUSTER_MODEL,
    AIM_CLUSTER_MODEL_SOURCE,
    AIM_CLUSTER_PROFILE,
    AIM_CLUSTER_PROFILE_SET,
    AIM_CLUSTER_RUNTIME_CONFIG,
    AIM_CLUSTER_SERVICE_TEMPLATE,
    AIM_MODEL,
    AIM_PROFILE,
    AIM_PROFILE_CACHE,
    AIM_PROFILE_SET,
    AIM_RUNTIME_CONFIG,
    AIM_SERVICE,
    AIM_SERVICE_TEMPLATE,
    AIM_TEMPLATE_CACHE,
    INFERENCE_SERVICE,
    OWN_KINDS,
    kind_of,
)
from controller_runtime import JsonObject, Kind, object_path
from controller_runtime.kind_names import collection_path
from controller_runtime.kinds import JOB
from controller_runtime.kube.client import APPLY

pytestmark = pytest.mark.asyncio(loop_scope="session")

TESTS = Path(__file__).parents[1]
UNIT_TESTS = tuple(f"unit/{name}" for name in ("artifacts", "discovery", "model_sync", "routing", "serving"))
STRICT = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": "aim-test"}
SPECS: Mapping[str, JsonObject] = {
    AIM_SERVICE.kind: {"model": {"image": "a/b:1"}},
    AIM_MODEL.kind: {"image": "a/b:1"},
    AIM_CLUSTER_MODEL.kind: {"image": "a/b:1"},
    AIM_SERVICE_TEMPLATE.kind: {"modelName": "m"},
    AIM_CLUSTER_SERVICE_TEMPLATE.kind: {"modelName": "m"},
    AIM_ARTIFACT.kind: {"sourceUri": "hf://a/b"},
    AIM_TEMPLATE_CACHE.kind: {"templateName": "t", "templateScope": "Namespace"},
    AIM_CLUSTER_MODEL_SOURCE.kind: source()["spec"],
    AIM_PROFILE.kind: {"image": "a/b:1"},
    AIM_CLUSTER_PROFILE.kind: {"image": "a/b:1"},
    AIM_PROFILE_SET.kind: {"selector": {"aimId": "a"}, "versionPolicy": "all"},
    AIM_CLUSTER_PROFILE_SET.kind: {"selector": {"aimId": "a"}, "versionPolicy": "all"},
    AIM_PROFILE_CACHE.kind: {"profileName": "p", "profileScope": "Namespace"},
    AIM_RUNTIME_CONFIG.kind: {},
    AIM_CLUSTER_RUNTIME_CONFIG.kind: {},
}
"""A valid object of each kind whose status is written."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def writes(tmp_path_factory: pytest.TempPathFactory) -> list[PlannedWrite]:
    """Everything that the services plan in their unit tests."""
    found = tmp_path_factory.mktemp("writes") / "writes"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pytest", "-q", "-p", "support.planned_writes", *UNIT_TESTS,
        cwd=TESTS, env={**os.environ, VARIABLE: str(found), "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return [PlannedWrite.decode(line) for line in found.read_bytes().splitlines()]


@pytest_asyncio.fixture(loop_scope="session")
async def furnished(api: RawApi, writes: list[PlannedWrite]) -> AsyncIterator[RawApi]:
    """The API with every namespace that is written to, and with an object for each status."""
    for namespace in sorted({str(write.body["metadata"].get("namespace", NAMESPACE)) for write in writes}):
        await api.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for name, spec in SPECS.items():
        kind = next(one for one in OWN_KINDS if one.kind == name)
        obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": where(kind), "spec": spec}
        reply = await api.apply(address(kind), obj, "aim-test")
        assert reply.status in (200, 201), reply.body
    yield api


def where(kind: Kind[Any]) -> JsonObject:
    return {"name": "written", **({"namespace": TEAM} if kind.namespaced else {})}


def address(kind: Kind[Any], subresource: str | None = None) -> str:
    return object_path(kind, "written", TEAM if kind.namespaced else None, subresource)


async def send(api: RawApi, write: PlannedWrite) -> Reply:
    """As the executor sends it, without effect."""
    body = write.body
    kind = kind_of(body["apiVersion"], body["kind"])
    assert kind is not None
    name, namespace = body["metadata"]["name"], body["metadata"].get("namespace")
    match write.verb:
        case Verb.CREATE:
            return await api.post(collection_path(kind, namespace), body, **STRICT)
        case Verb.APPLY:
            path = object_path(kind, name, namespace)
            return await api.send("PATCH", path, body, APPLY, force="true", **STRICT)
        case Verb.STATUS:
            placed = {**body, "metadata": where(kind)}
            return await api.send("PATCH", address(kind, "status"), placed, APPLY, force="true", **STRICT)


async def test_everything_planned_is_accepted(furnished: RawApi, writes: list[PlannedWrite]) -> None:
    refused: dict[str, JsonObject] = {}
    accepted: Counter[tuple[Verb, str]] = Counter()
    for write in writes:
        reply = await send(furnished, write)
        if reply.status in (200, 201) and "Warning" not in reply.headers:
            accepted[write.verb, write.body["kind"]] += 1
        else:
            refused[reply.message or reply.headers["Warning"]] = write.body
    assert refused == {}
    assert {kind for _, kind in accepted} >= {*SPECS, JOB.kind, INFERENCE_SERVICE.kind, "HTTPRoute", "RoleBinding"}
    assert {kind for verb, kind in accepted if verb is Verb.STATUS} == set(SPECS)
