"""Pages of lists: the same objects, decoded as a whole or one by one, and never many bytes at a time."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_runtime import JsonObject, loads
from controller_runtime.kube import client as page
from controller_runtime.kube.client import AT_ONCE, STEP, ListBody, take_in

_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.text(max_size=5)
    | st.sampled_from(['"items"', "items", "]}", '\\"']),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "items", "]"]), inner, max_size=3)
    ),
    max_leaves=8,
)
_OBJECTS = st.dictionaries(st.sampled_from(["metadata", "items", "{", 'a"b']), _VALUES, max_size=3)


def _split(body: bytes) -> tuple[list[JsonObject], JsonObject]:
    listed = ListBody(body)
    return [obj for _, obj in listed._one_by_one()], listed.rest


@pytest.mark.spec("FW-493")
@given(
    st.lists(_OBJECTS, max_size=4),
    st.permutations(["kind", "metadata", "items", "more"]),
    _VALUES,
    st.sampled_from([None, 2]),
)
def test_objects_are_found_wherever_the_list_has_them(
    objects: list[JsonObject], order: list[str], value: object, indent: int | None
) -> None:
    members = {"kind": "items", "metadata": {"items": [{}], "continue": "c"}, "items": objects, "more": value}
    body = json.dumps({name: members[name] for name in order}, indent=indent).encode()
    assert _split(body) == (objects, {name: members[name] for name in order if name != "items"})


@pytest.mark.spec("FW-493")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"items": [1]}',
        b'{"items": [{}, 1]}',
        b'{"items": [1, {}]}',
        b'{"items": [[]]}',
        b'{"items": [{}{}]}',
        b'{"items": [{},,{}]}',
        b'{"items": [,{}]}',
        b'{"items": [{},]}',
        b'{"items": {"a": {}}}',
        b'{"items": [{"a": }]}',
        b'{"items": [{"a": 1}',
        b'{"items": [{"a": 1]}',
        b'{"items": [{"a": "',
        b'{"items": [{}]} trailing',
        b"<html>",
    ],
)
async def test_what_is_no_list_of_objects_is_refused_either_way(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for at_once in (0, AT_ONCE):
        monkeypatch.setattr(page, "AT_ONCE", at_once)
        with pytest.raises(ValueError, match=r"."):
            await take_in(body or b" ", lambda _: None)


@pytest.mark.parametrize("body", [b"{}", b'{"items": null}', b'{"items": []}', b'{"items": [ ], "a": {"b": [{}]}}'])
async def test_a_list_may_be_empty(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {name: value for name, value in loads(body).items() if name != "items"}
    for at_once in (0, AT_ONCE):
        monkeypatch.setattr(page, "AT_ONCE", at_once)
        taken: list[JsonObject] = []
        assert await take_in(body, taken.append) == expected
        assert taken == []


def _steps(body: bytes) -> list[int]:
    """Objects that were handed on between two turns of everything else."""
    turns = [0]

    def take(_: JsonObject) -> None:
        turns[-1] += 1

    async def run() -> None:
        taking = asyncio.ensure_future(take_in(body, take))
        while not taking.done():
            turns.append(0)
            await asyncio.sleep(0)
        await taking

    asyncio.run(run())
    return [count for count in turns if count]


def _page(count: int, size: int) -> bytes:
    return json.dumps({"items": [{"n": n, "text": "x" * size} for n in range(count)], "metadata": {}}).encode()


@pytest.mark.spec("FW-493")
def test_a_page_of_large_objects_is_decoded_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []

    def counted(body: bytes) -> JsonObject:
        decoded.append(len(body))
        return loads(body)

    monkeypatch.setattr(page, "loads", counted)
    assert _steps(_page(50, 250_000)) == [1] * 50
    assert max(decoded) < 251_000


@pytest.mark.spec("FW-493")
@pytest.mark.parametrize(("count", "size"), [(100, 4_000), (400, 4_000), (1_000, 50), (30, 100_000), (3, 300_000)])
def test_no_step_takes_more_than_its_share(count: int, size: int) -> None:
    steps = _steps(_page(count, size))
    assert sum(steps) == count
    assert max(steps) <= max(1, min(32, STEP // size))


@pytest.mark.spec("FW-493")
def test_a_page_that_breaks_off_inside_a_text_is_refused_where_it_does() -> None:
    # Seconds, were each of its quotes tried as the beginning of a text.
    text = b'{"items":[{"metadata":{"annotations":{"x":"' + rb"{\"a\":" * 40_000
    with pytest.raises(ValueError, match="ends inside a string"):
        _split(text)
