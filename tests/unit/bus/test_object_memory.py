"""What the cache and the publisher keep of an object: packed bytes, and the decoded form for as long as it is used."""

import gc
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cache_objects import by_owner, colour_index, entry_of, widget, widgets

from controller_runtime import Cache, Key, Resource
from controller_runtime.compact import Packed, Packer, unpacked
from controller_runtime.kube.reflector_state import Restarted
from controller_runtime.log.publish.source import Source, published
from controller_runtime.log.wire.version import KEPT_DECODED, Entry, Version, keep_decoded

TEXT = "a text that every object repeats, as the specs of one model do. " * 20


def _decoded(text: str) -> int:
    """Decoded objects of which something still holds on."""
    return sum(isinstance(one, Resource) and one.namespace == text for one in gc.get_objects())


@pytest.mark.spec("FW-459")
def test_objects_of_a_part_are_packed_against_each_other() -> None:
    part = widgets()
    cache = Cache([part])
    for number in range(50):
        cache.put(entry_of(part, widget(f"w{number}", f"u{number}", number + 1, note=TEXT), number + 1), 0)
    held = [entry._held for entry in cache.all(part)]
    assert all(isinstance(one, Packed) for one in held)
    assert sum(one.size for one in held if isinstance(one, Packed)) < 50 * len(TEXT) / 8
    assert [entry.raw["note"] for entry in cache.all(part)] == [TEXT] * 50


@pytest.mark.spec("FW-459")
@given(st.lists(st.binary(max_size=3000) | st.builds(lambda n: TEXT.encode() * n, st.integers(0, 60)), max_size=30))
def test_whatever_is_packed_comes_out_as_it_was(bodies: list[bytes]) -> None:
    packer = Packer()
    held = [packer.pack(body) for body in bodies]
    assert [unpacked(one) for one in held] == bodies
    assert all(one.size < len(body) for one, body in zip(held, bodies, strict=True) if isinstance(one, Packed))


@pytest.mark.spec("FW-459")
def test_no_pattern_is_kept_for_every_body_that_resembles_none() -> None:
    packer = Packer()
    bodies = [random.Random(seed).randbytes(600) + bytes(300) for seed in range(1000)]
    patterns = {id(one._pattern) for body in bodies if isinstance(one := packer.pack(body), Packed)}
    assert len(patterns) <= 4


@pytest.mark.spec("FW-459")
def test_a_large_body_is_packed_against_itself_where_the_pattern_is_small() -> None:
    packer = Packer()
    packer.pack(b"small" * 60)
    repeated = random.Random(1).randbytes(5000)
    held = packer.pack(repeated * 20)
    assert isinstance(held, Packed)
    assert held.size < 2 * len(repeated)
    assert held.unpack() == repeated * 20


@pytest.mark.spec("FW-459")
def test_the_publisher_holds_packed_bytes_as_well() -> None:
    part = widgets()
    source = Source(part)
    objects = tuple(widget(f"w{number}", f"u{number}", number + 1, note=TEXT) for number in range(20))
    source.take(Restarted(tuple(map(published(part), objects)), "100"))
    held = list(source.present.values())
    assert all(isinstance(version.held, Packed) for version in held)
    assert [json.loads(version.body) for version in held] == list(objects)


@pytest.mark.spec("FW-459")
def test_no_more_is_kept_decoded_than_belongs_to_a_few_megabytes_of_json() -> None:
    part, checkpoint = widgets(), "decoded-and-kept"
    keep_decoded(KEPT_DECODED)
    cache = Cache([part])
    size = len(entry_of(part, widget("w", note=TEXT)).body)
    count = 3 * KEPT_DECODED // size
    for number in range(count):
        obj = widget(f"w{number}", f"u{number}", number + 1, namespace=checkpoint, note=TEXT)
        cache.put(entry_of(part, obj, number + 1), 0)
    for entry in cache.all(part):
        assert entry.object is not None
    kept = _decoded(checkpoint)
    assert 0 < kept <= KEPT_DECODED // size
    assert all(entry.object is not None and entry.object.name == entry.key.name for entry in cache.all(part))


@pytest.mark.spec("FW-459")
def test_a_deletion_leaves_the_indexes_without_decoding_what_is_deleted() -> None:
    part = widgets()
    colour, owner = colour_index(part), by_owner(part)
    cache = Cache([part], [colour, owner])
    cache.put(entry_of(part, widget("a", "u1", 1, labels={"colour": "red"}, owner="o"), 1), 0)
    cache.put(entry_of(part, widget("b", "u2", 2, labels={"colour": "red"}), 2), 0)
    (first, _) = cache.all(part)
    first.forget_decoded()
    first._held = b"no longer to be decoded"
    cache.delete(part, Key("ns", "a"), Version("u1", "3", 3, "e1"), 0)
    assert [entry.key.name for entry in cache.select(colour, "ns/red")] == ["b"]
    assert cache.select(owner, "o") == []


@pytest.mark.spec("FW-459")
def test_members_in_another_order_are_the_same_content() -> None:
    part, obj = widgets(), widget("a", "u1", 1, note="x")
    turned = {**dict(reversed(obj.items())), "metadata": {**obj["metadata"], "resourceVersion": "2"}}
    later, other = entry_of(part, turned, 2), entry_of(part, {**turned, "note": "y"}, 3)
    first: Entry[Resource] = entry_of(part, obj, 1)
    assert first.same_content(later)
    assert not first.same_content(other)
