"""The objects of a list are held small from the page on, and read the same as before."""

import gc
import weakref
from typing import Any

import pytest
from support.fake_apiserver import config_map

from aim_shared.api.meta import Identity, ObjectKey
from aim_shared.kube.client import ObjectPage
from aim_shared.kube.object_list import ObjectList
from aim_shared.kube.reflector_state import Empty, ListFrom, Listing, after_page
from aim_shared.packed import Packed

TEXT = "what every object of the kind says again. " * 50


class Tracked(dict[str, Any]):
    """A decoded object of which can be told whether it is still there."""


def page(first: int, count: int, token: str) -> tuple[ObjectPage, "list[weakref.ref[Tracked]]"]:
    objects = tuple(Tracked(config_map(f"m{n}", n + 1, text=TEXT)) for n in range(first, first + count))
    return ObjectPage(objects, "9", token), [weakref.ref(one) for one in objects]


@pytest.mark.spec("FW-460")
def test_of_a_page_that_was_taken_nothing_decoded_is_kept() -> None:
    state: Any = Empty(ListFrom.STORE)
    for number in range(3):
        arrived, alive = page(100 * number, 100, "more")
        state = after_page(state, arrived)
        del arrived
        gc.collect()
        assert not any(one() for one in alive)
    assert isinstance(state, Listing)
    sizes = [held.body.size for held in state.items._held if isinstance(held.body, Packed)]
    assert len(sizes) == len(state.items) == 300
    assert sum(sizes) < 300 * len(TEXT) / 8


@pytest.mark.spec("FW-460")
def test_a_list_reads_like_the_objects_it_was_made_of() -> None:
    objects = tuple(config_map(f"m{n}", n + 1, text=TEXT) for n in range(5))
    listed = ObjectList.of(objects[:2]).joined(objects[2:])
    assert listed == objects
    assert (listed[1], len(listed)) == (objects[1], 5)
    assert listed[1:3] == objects[1:3]
    assert listed != objects[:4]
    assert listed != (*objects[:4], objects[0])
    assert ObjectList.of(listed) is listed
    namespace = objects[0]["metadata"]["namespace"]
    first = Identity(ObjectKey(namespace, "m0"), objects[0]["metadata"]["uid"], "1")
    assert next(iter(listed.identities)) == first


def test_changes_lie_over_a_list() -> None:
    a, b, c = (config_map(name, 1) for name in "abc")
    later = config_map("b", 5)
    keys = {one.key.name: one.key for one in ObjectList.of((a, b, c)).identities}
    assert ObjectList.of((a, b)).overlaid({keys["a"]: None, keys["b"]: later, keys["c"]: c}) == (later, c)
    assert ObjectList.of((a, b)).overlaid({keys["c"]: None}) == (a, b)


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"metadata": None},
        {"metadata": ["name"]},
        {"metadata": {"name": "a"}},
        {"metadata": {"resourceVersion": "1"}},
        {"metadata": {"name": 1, "resourceVersion": "1"}},
        {"metadata": {"name": "a", "resourceVersion": 1}},
        {"metadata": {"name": "a", "resourceVersion": "1", "uid": 1}},
        {"metadata": {"name": "a", "resourceVersion": "1", "namespace": {}, "uid": {"a": 1}}},
    ],
)
def test_an_object_without_name_or_version_is_refused(obj: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="an object without"):
        ObjectList.of((obj,))
