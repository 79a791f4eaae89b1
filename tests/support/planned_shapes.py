"""What every child has in all services: its owner (FW-211), the labels of its controller, and valid labels."""

from collections.abc import Iterator, Mapping
from typing import Final

from support.planned_writes import PlannedWrite, Verb

from aim_domain.services import SERVICES
from controller_runtime import JsonObject

TESTS_OF_SERVICES: Final = tuple(f"tests/unit/{service.replace('-', '_')}/" for service in SERVICES)
"""Tests whose plans are those of services, and not of controllers that a test made up."""

_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
_OWN: Final = "aim.eai.amd.com/"
_LONGEST_LABEL: Final = 63

_NOBODY: Final = ""
_OWNERS: Final[Mapping[str, set[str]]] = {
    "AIMService": {"AIMService"},
    "InferenceService": {"AIMService"},
    "HTTPRoute": {"AIMService"},
    "AIMModel": {_NOBODY},
    "AIMClusterModel": {"AIMClusterModelSource"},
    "AIMClusterServiceTemplate": {"AIMClusterModel"},
    "PersistentVolumeClaim": {"AIMArtifact"},
    "RoleBinding": {_NOBODY},
    "ConfigMap": {"AIMService", "AIMServiceTemplate", "AIMClusterServiceTemplate", "AIMModel", "AIMClusterModel"},
    "AIMProfile": {"AIMModel", "AIMProfileSet", "AIMService"},
    "AIMClusterProfile": {"AIMClusterModel", "AIMClusterProfileSet"},
    "AIMProfileSet": {"AIMModel"},
    "AIMClusterProfileSet": {"AIMClusterModel"},
}
"""Who may control a child of a kind, as far as that follows from the kind alone."""

_MANAGERS: Final[Mapping[str, str]] = {"InferenceService": "aim-engine", "HTTPRoute": "aim-engine"}


def shape_problems(write: PlannedWrite) -> list[str]:
    """What is wrong with a child that a plan makes."""
    return [] if write.verb is Verb.STATUS else [*_of_owner(write.body), *_of_labels(write.body)]


def assert_shaped(write: PlannedWrite) -> None:
    """Fail the test whose plan makes a child that is not like all others."""
    found = shape_problems(write)
    assert not found, f"{write.body['kind']} {write.body['metadata']['name']}: {found}"


def _of_owner(body: JsonObject) -> Iterator[str]:
    references = body["metadata"].get("ownerReferences") or []
    controllers = [one["kind"] for one in references if one.get("controller")] or [_NOBODY]
    allowed = _allowed(body)
    if len(controllers) > 1 or not allowed.issuperset(controllers):
        yield f"controlled by {controllers}, not by one of {sorted(allowed)}"
    if any("blockOwnerDeletion" in one for one in references):
        yield "blockOwnerDeletion is set"


def _allowed(body: JsonObject) -> set[str]:
    kind, spec, labels = body["kind"], body.get("spec") or {}, body["metadata"].get("labels") or {}
    if kind == "AIMTemplateCache":
        return {"AIMService"} if spec.get("mode") == "Dedicated" else {_NOBODY, "AIMServiceTemplate"}
    if kind == "AIMProfileCache":
        return {"AIMService"} if spec.get("mode") == "Dedicated" else {_NOBODY, "AIMProfile"}
    if kind == "AIMArtifact":
        of_service = body["spec"].get("type") in {"adapter", "adapterDisk"}
        return {"AIMService"} if of_service else {_NOBODY, "AIMTemplateCache", "AIMProfileCache"}
    if kind == "AIMServiceTemplate":
        return {_NOBODY} if labels.get(f"{_OWN}origin") == "derived" else {"AIMModel"}
    if kind == "Job":
        of_artifact = labels.get(f"{_OWN}cache.type") == "artifact"
        of_model = f"{_OWN}discovery-target" in labels
        if of_model:
            return {"AIMModel", "AIMClusterModel"}
        return {"AIMArtifact"} if of_artifact else {"AIMServiceTemplate", "AIMClusterServiceTemplate"}
    return _OWNERS[kind]


def _of_labels(body: JsonObject) -> Iterator[str]:
    labels: dict[str, str] = body["metadata"].get("labels") or {}
    if body["kind"] == "RoleBinding":
        return
    yield from (f"label {key} has {len(one)} characters" for key, one in labels.items() if len(one) > _LONGEST_LABEL)
    manager = labels.get(_MANAGED_BY, "")
    expected = _MANAGERS.get(body["kind"])
    if body["kind"] == "Job" and labels.get("app.kubernetes.io/name") == "aim-discovery":
        expected = "aim-controller"
    if labels.get(f"{_OWN}origin") == "derived":
        expected = "aim-engine"
    if not (manager == expected if expected else manager.startswith("aim-") and manager.endswith("-controller")):
        yield f"{_MANAGED_BY} is {manager!r}"
    if body["kind"] == "Job":
        on_pod = body["spec"]["template"]["metadata"]["labels"]
        missing = {key for key in labels if key.startswith(_OWN) and key not in on_pod}
        if missing:
            yield f"its pods lack {sorted(missing)}"
        if _MANAGED_BY in on_pod:
            yield f"its pods carry {_MANAGED_BY}"
