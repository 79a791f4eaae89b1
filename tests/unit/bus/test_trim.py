"""What of the large kinds goes over the bus. That decisions lack nothing is shown by all tests that use `cache_of`."""

from collections.abc import Mapping
from copy import deepcopy
from datetime import datetime
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from aim_domain import parts, trim
from controller_runtime import JsonObject, Part, dumps
from controller_runtime.log.wire.part import published_form

META: Final[JsonObject] = {
    "name": "x",
    "namespace": "ns",
    "uid": "u",
    "resourceVersion": "7",
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "labels": {"a": "b"},
    "annotations": {"c": "d"},
    "managedFields": [{"manager": "m", "fieldsV1": {"f:x": {}}}],
}
HPA: Final[JsonObject] = {
    "metadata": META,
    "spec": {
        "scaleTargetRef": {"kind": "Deployment", "name": "x"},
        "minReplicas": 1,
        "maxReplicas": 3,
        "metrics": [{"type": "External"}],
        "behavior": {"scaleDown": {}},
    },
    "status": {
        "observedGeneration": 1,
        "lastScaleTime": "2026-01-01T00:00:00Z",
        "currentReplicas": 2,
        "desiredReplicas": 3,
        "currentMetrics": [{"type": "External", "external": {"current": {"averageValue": "1"}}}],
        "conditions": [
            {"type": "AbleToScale", "status": "True", "reason": "Ready", "message": "m", "lastTransitionTime": "t"},
            {"type": "ScalingActive", "status": "False", "reason": "Failed", "message": "why"},
            {"type": "ScalingLimited", "status": "True", "reason": "TooMany", "message": "m"},
        ],
    },
}
NODE: Final[JsonObject] = {
    "metadata": META,
    "spec": {"unschedulable": True, "podCIDR": "10.0.0.0/24"},
    "status": {
        "capacity": {"cpu": "8", "amd.com/gpu": "8"},
        "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "t1"}],
        "images": [{"names": ["a"]}],
    },
}


@pytest.mark.spec("FW-447")
def test_of_an_autoscaler_bounds_replicas_and_two_conditions() -> None:
    form = published_form(parts.AUTOSCALERS, HPA)
    assert form["spec"] == {
        "scaleTargetRef": {"kind": "Deployment", "name": "x"},
        "minReplicas": 1,
        "maxReplicas": 3,
        "metrics": [{"type": "External"}],
    }
    assert form["status"] == {
        "currentReplicas": 2,
        "desiredReplicas": 3,
        "conditions": [
            {"type": "AbleToScale", "status": "True", "reason": "Ready", "message": "m"},
            {"type": "ScalingActive", "status": "False", "reason": "Failed", "message": "why"},
        ],
    }


@pytest.mark.spec("FW-724")
def test_what_the_metrics_said_is_published_with_the_change_of_replicas_alone() -> None:
    scaled = deepcopy(HPA)
    scaled["status"]["conditions"][0]["reason"] = "SucceededRescale"
    assert published_form(parts.AUTOSCALERS, scaled)["status"]["currentMetrics"] == HPA["status"]["currentMetrics"]
    assert "currentMetrics" not in published_form(parts.AUTOSCALERS, HPA)["status"]


@pytest.mark.spec("FW-447")
def test_of_an_inference_service_all_that_is_desired_and_what_is_read_of_the_rest() -> None:
    spec = {"predictor": {"model": {"args": ["a"]}, "anything": 1}}
    status = {"conditions": [{"type": "Ready"}], "url": "u", "observedGeneration": 2}
    obj = {"metadata": META, "spec": spec, "status": {**status, "modelStatus": {"copies": 1}, "components": {}}}
    form = published_form(parts.INFERENCE_SERVICES, obj)
    assert (form["spec"], form["status"]) == (spec, status)
    assert form["metadata"]["annotations"] == {"c": "d"}
    assert "status" not in published_form(parts.INFERENCE_SERVICES, {"metadata": META, "spec": spec})


@pytest.mark.spec("FW-447", "FW-452")
@pytest.mark.parametrize(
    ("part", "obj", "path"),
    [
        (parts.AUTOSCALERS, HPA, ("status", "currentMetrics", 0, "external", "current", "averageValue")),
        (parts.AUTOSCALERS, HPA, ("status", "lastScaleTime")),
        (parts.NODES, NODE, ("status", "conditions", 0, "lastHeartbeatTime")),
        (parts.NODES, NODE, ("status", "images", 0, "names")),
    ],
)
def test_what_changes_all_the_time_leaves_the_published_form_as_it_is(
    part: Part[Any], obj: JsonObject, path: tuple[str | int, ...]
) -> None:
    later = deepcopy(obj)
    place: Any = later
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = "another"
    assert published_form(part, later) == published_form(part, obj)


@pytest.mark.spec("FW-447")
@pytest.mark.parametrize("part", [part for part in vars(parts).values() if isinstance(part, Part)], ids=str)
def test_nobody_gets_managed_fields(part: Part[Any]) -> None:
    assert b"managedFields" not in dumps(published_form(part, {"metadata": META}))


@pytest.mark.spec("FW-532")
@pytest.mark.parametrize("part", [parts.AUTOSCALERS, parts.NODES, parts.CUSTOM_PROFILES], ids=str)
def test_a_list_and_a_watch_give_the_same_bytes(part: Part[Any]) -> None:
    identity = {"apiVersion": part.kind.api_version, "kind": part.kind.kind}
    rest = {"metadata": META, "spec": {"a": 1}, "data": {"b": "c"}, "status": {}}
    watched, listed = {"kind": identity["kind"], **identity, **rest}, {**rest, **identity}
    assert dumps(published_form(part, watched)) == dumps(published_form(part, listed))


def filled(model: type[BaseModel]) -> JsonObject:
    """An object as the API server has it, with every field that the model declares."""
    return {field.alias or name: value_of(field.annotation) for name, field in model.model_fields.items()}


def value_of(annotation: Any) -> Any:
    """A value that differs from the default of its field."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return value_of(arguments[0])
    if origin in {Union, UnionType}:
        return value_of(next(one for one in arguments if one is not type(None)))
    if origin is tuple:
        return [value_of(arguments[0])]
    if origin is dict:
        # The extended resources of a node are those with a domain.
        return {"amd.com/gpu": value_of(arguments[1])}
    if issubclass(annotation, BaseModel):
        return filled(annotation)
    if issubclass(annotation, datetime):
        return "2026-01-01T00:00:00Z"
    if issubclass(annotation, Enum):
        return str(list(annotation)[-1])
    return {bool: True, int: 7, str: "7"}[annotation]


TYPES: Final[Mapping[Part[Any], str]] = {parts.AUTOSCALERS: "ScalingActive", parts.GATEWAYS: "Programmed"}
"""Where not all conditions are read, one that is; of those only what is common to all."""
FOREIGN: Final = [one for one in vars(parts).values() if isinstance(one, Part) and one.trim in vars(trim).values()]


@pytest.mark.spec("FW-447")
@pytest.mark.parametrize("part", FOREIGN, ids=str)
def test_what_a_model_declares_is_published(part: Part[Any]) -> None:
    whole: JsonObject = {**filled(part.kind.model), "apiVersion": "v1", "kind": part.kind.kind, "metadata": META}
    if part in TYPES:
        status = whole["status"]
        for holder in (status, *status.get("listeners", ())):
            holder["conditions"] = [{"type": TYPES[part], "status": "True", "reason": "r", "message": "m"}]
    published, read = part.kind.decode(published_form(part, whole)), part.kind.decode(whole)
    for name in part.kind.model.model_fields.keys() - {"api_version", "kind", "metadata"}:
        assert getattr(published, name) == getattr(read, name), name
