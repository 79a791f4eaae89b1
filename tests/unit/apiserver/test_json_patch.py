"""JSON patch and JSON merge patch."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_runtime import JsonObject
from embedded_apiserver.objects.patch import PatchError, json_patch, merge_patch

DOCUMENT: JsonObject = {"a": {"b": 1}, "l": [1, 2, 3], "x/y": {"~": 0}}


@pytest.mark.parametrize(
    ("op", "changes"),
    [
        ({"op": "add", "path": "/new", "value": {"z": 1}}, {"new": {"z": 1}}),
        ({"op": "add", "path": "/l/1", "value": 9}, {"l": [1, 9, 2, 3]}),
        ({"op": "add", "path": "/l/-", "value": 9}, {"l": [1, 2, 3, 9]}),
        ({"op": "add", "path": "/l/3", "value": 9}, {"l": [1, 2, 3, 9]}),
        ({"op": "remove", "path": "/l/0"}, {"l": [2, 3]}),
        ({"op": "remove", "path": "/a/b"}, {"a": {}}),
        ({"op": "replace", "path": "/a/b", "value": 2}, {"a": {"b": 2}}),
        ({"op": "replace", "path": "/l/2", "value": 9}, {"l": [1, 2, 9]}),
        ({"op": "replace", "path": "/x~1y/~0", "value": 1}, {"x/y": {"~": 1}}),
        ({"op": "move", "from": "/a/b", "path": "/c"}, {"a": {}, "c": 1}),
        ({"op": "copy", "from": "/a", "path": "/c"}, {"c": {"b": 1}}),
        ({"op": "test", "path": "/l", "value": [1, 2, 3]}, {}),
        ({"op": "replace", "path": "", "value": DOCUMENT}, {}),
    ],
)
def test_operations(op: JsonObject, changes: JsonObject) -> None:
    before = copy.deepcopy(DOCUMENT)
    assert json_patch(DOCUMENT, [op]) == {**DOCUMENT, **changes}
    assert before == DOCUMENT


@pytest.mark.parametrize(
    "op",
    [
        {"op": "test", "path": "/a/b", "value": 2},
        {"op": "test", "path": "/a/b", "value": True},
        {"op": "remove", "path": "/missing"},
        {"op": "remove", "path": "/l/3"},
        {"op": "add", "path": "/l/4", "value": 1},
        {"op": "add", "path": "/l/x", "value": 1},
        {"op": "add", "path": "/missing/deep", "value": 1},
        {"op": "add", "path": "/a/b/c", "value": 1},
        {"op": "replace", "path": "", "value": 1},
        {"op": "remove", "path": ""},
        {"op": "add"},
        {"op": "grow", "path": "/a"},
        {"op": "add", "path": "a", "value": 1},
        {"op": "move", "path": "/a"},
    ],
)
def test_what_does_not_fit_the_object_is_unprocessable(op: JsonObject) -> None:
    with pytest.raises(PatchError) as caught:
        json_patch(DOCUMENT, [{"op": "add", "path": "/first", "value": 1}, op])
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    assert "first" not in DOCUMENT


@pytest.mark.parametrize(
    "ops",
    [{}, None, ["x"]],
)
def test_malformed_operations_are_a_bad_request(ops: object) -> None:
    with pytest.raises(PatchError) as caught:
        json_patch(DOCUMENT, ops)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["x", "y"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


def naive_merge(target: Any, patch: Any) -> Any:
    """The pseudo-code of RFC 7386, section 2."""
    if not isinstance(patch, dict):
        return patch
    if not isinstance(target, dict):
        target = {}
    target = dict(target)
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        else:
            target[name] = naive_merge(target.get(name), value)
    return target


@given(OBJECTS, OBJECTS)
def test_merge_patch_agrees_with_the_rfc(obj: JsonObject, patch: JsonObject) -> None:
    before = copy.deepcopy((obj, patch))
    assert merge_patch(obj, patch) == naive_merge(obj, patch)
    assert (obj, patch) == before


def test_a_merge_patch_is_an_object() -> None:
    with pytest.raises(PatchError) as caught:
        merge_patch(DOCUMENT, [])
    assert caught.value.code == 400
