"""That plans of unit tests are held against the schemas at all, and that a wrong one is found."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.planned_schemas import problems
from support.planned_shapes import TESTS_OF_SERVICES, shape_problems
from support.planned_writes import PlannedWrite, Verb
from support.serving import aim_service, plan_for, serving_cache

from aim_domain.kinds import AIM_SERVICE, HTTP_ROUTE, INFERENCE_SERVICE
from controller_runtime import JsonObject
from controller_runtime.kinds import JOB

TESTS = Path(__file__).parents[1]
UNWATCHED = {"deciding.py", "replay_log.py"}
"""What watches, and decisions of widgets, of which there are no schemas."""


def write(api_version: str, kind: str, verb: Verb = Verb.APPLY, **members: object) -> PlannedWrite:
    metadata: JsonObject = {"name": "x", "namespace": "team"}
    return PlannedWrite(verb, {"apiVersion": api_version, "kind": kind, "metadata": metadata, **members})


@pytest.mark.spec("FW-504")
def test_every_decision_of_a_test_is_watched() -> None:
    """A test that took one past `support.deciding` would not be told of a plan that no API server takes."""
    strays = [f"{path.name}:{line}" for path in TESTS.rglob("*.py") for line in _unwatched(path)]
    assert strays == []


def _unwatched(path: Path) -> Iterator[int]:
    if path.name in UNWATCHED:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("controller_runtime"):
                if any(name.name == "decide" for name in names):
                    yield node.lineno
            case ast.Call(func=ast.Attribute(attr="reconcile" | "finalize"), args=[_, _, _]):
                yield node.lineno


def test_a_plan_that_would_be_refused_fails_its_test() -> None:
    source = {"modelId": "a/b", "sourceUri": "hf://a/b"}
    without_hardware = {"custom": {"baseImage": "base:1", "modelSources": [source]}}
    with pytest.raises(AssertionError, match="at least one of gpu and cpu is required"):
        plan_for(serving_cache(aim_service(model=without_hardware)))


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        (
            write(INFERENCE_SERVICE.api_version, "InferenceService", spec={"predictor": {"containes": []}}),
            'unknown field "spec.predictor.containes"',
        ),
        (
            write(
                HTTP_ROUTE.api_version,
                "HTTPRoute",
                spec={"rules": [{"timeouts": {"request": "1.5s"}}]},
            ),
            "spec.rules[0].timeouts.request: Invalid value",
        ),
        (
            write(
                HTTP_ROUTE.api_version,
                "HTTPRoute",
                spec={"rules": [{"matches": [{"path": {"value": "no-slash"}}]}]},
            ),
            "value must be an absolute path and start with '/'",
        ),
        (
            write(AIM_SERVICE.api_version, "AIMService", Verb.STATUS, status={"status": "Splendid"}),
            "status.status: Unsupported value",
        ),
        (write(JOB.api_version, "Job", spec={"backoffLimit": "two"}), "spec.backoffLimit"),
    ],
    ids=["unknown-field", "pattern", "rule", "enum", "built-in-type"],
)
def test_what_an_api_server_refuses_is_found(given: PlannedWrite, reported: str) -> None:
    assert any(reported in problem for problem in problems(given)), problems(given)


def test_a_status_is_not_blamed_for_the_spec() -> None:
    assert problems(write(AIM_SERVICE.api_version, "AIMService", Verb.STATUS, status={"status": "Running"})) == []


OWN = "aim.eai.amd.com/"
MANAGED_BY = "app.kubernetes.io/managed-by"


def owned(kind: str, by: str, **labels: str) -> PlannedWrite:
    """A child as its builder should make it, controlled by an object of a kind, or by nobody."""
    owners = [{"kind": by, "name": "x", "uid": "u", "controller": True}] if by else []
    spec: JsonObject = {"template": {"metadata": {"labels": {}}}} if kind == "Job" else {}
    metadata: JsonObject = {
        "name": "x",
        "labels": {MANAGED_BY: "aim-x-controller", **labels},
        "ownerReferences": owners,
    }
    return PlannedWrite(Verb.APPLY, {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec})


@pytest.mark.spec(
    "FW-211", "FW-220", "FW-221", "FW-222", "FW-223", "FW-208", "FW-S40", "FW-S44", "FW-P10", "FW-P20", "AR-042"
)
@pytest.mark.parametrize(
    ("made", "reported"),
    [
        (owned("InferenceService", "", **{MANAGED_BY: "aim-engine"}), "controlled by"),
        (owned("InferenceService", "AIMService"), f"{MANAGED_BY} is 'aim-x-controller'"),
        (owned("HTTPRoute", "AIMService"), f"{MANAGED_BY} is"),
        (owned("AIMModel", "AIMService"), "controlled by"),
        (owned("AIMTemplateCache", "AIMService"), "controlled by"),
        (owned("AIMArtifact", "AIMService"), "controlled by"),
        (owned("AIMServiceTemplate", "AIMService", **{f"{OWN}origin": "derived"}), "controlled by"),
        (owned("AIMServiceTemplate", "", **{f"{OWN}origin": "derived"}), f"{MANAGED_BY} is"),
        (owned("AIMServiceTemplate", ""), "controlled by"),
        (owned("PersistentVolumeClaim", ""), "controlled by"),
        (owned("RoleBinding", "AIMArtifact"), "controlled by"),
        (owned("Job", "AIMArtifact"), "controlled by"),
        (owned("Job", "AIMArtifact", **{f"{OWN}cache.type": "artifact"}), "its pods lack"),
        (owned("PersistentVolumeClaim", "AIMArtifact", **{f"{OWN}artifact.name": "x" * 64}), "64 characters"),
        (owned("PersistentVolumeClaim", "AIMArtifact", **{MANAGED_BY: ""}), f"{MANAGED_BY} is ''"),
    ],
)
def test_a_child_that_is_not_like_all_others_fails_the_test_that_plans_it(made: PlannedWrite, reported: str) -> None:
    assert any(reported in problem for problem in shape_problems(made)), shape_problems(made)


@pytest.mark.parametrize(
    "made",
    [
        owned("InferenceService", "AIMService", **{MANAGED_BY: "aim-engine"}),
        owned("AIMServiceTemplate", "AIMModel"),
        owned("AIMArtifact", ""),
        owned("PersistentVolumeClaim", "AIMArtifact"),
    ],
)
def test_a_child_like_all_others_is_let_pass(made: PlannedWrite) -> None:
    assert shape_problems(made) == []


def test_plans_of_the_services_are_held_against_it() -> None:
    assert all((TESTS.parent / folder).is_dir() for folder in TESTS_OF_SERVICES)
