"""Whether the bus tells what the API server has."""

import pytest
from matrix.oracle import ObjectKey, key_of
from matrix.plans import behind
from support.cache_objects import entry_of, widget, widgets

from controller_runtime import Cache, JsonObject

PART = widgets()


def identified(**labels: str) -> JsonObject:
    return {"apiVersion": PART.kind.api_version, "kind": PART.kind.kind, **widget("a", "u1", 7, labels=labels)}


def test_what_the_bus_holds_as_the_api_server_does_is_not_behind() -> None:
    cache, present = Cache([PART]), identified(colour="red")
    cache.put(entry_of(PART, present, 1), 0)
    newer = {**present, "metadata": {**present["metadata"], "resourceVersion": "9", "managedFields": [{}]}}
    assert behind(cache, {key_of(newer): newer}) == []


def test_an_object_that_the_bus_lacks_is_reported() -> None:
    present = identified()
    assert behind(Cache([PART]), {key_of(present): present}) == [f"no {key_of(present)} on the bus"]
    other = {**present, "kind": "Other"}
    assert behind(Cache([PART]), {key_of(other): other}) == []


@pytest.mark.parametrize("other", [identified(colour="blue"), {**identified(colour="red"), "more": 1}])
def test_an_object_that_is_another_on_the_bus_is_reported(other: JsonObject) -> None:
    cache = Cache([PART])
    cache.put(entry_of(PART, identified(colour="red"), 1), 0)
    assert behind(cache, {ObjectKey(PART.kind.kind, "ns", "a"): other}) == [f"another {key_of(other)} on the bus"]
