"""Field sets and their FieldsV1 form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_apiserver.objects.managedfields import decode, encode, key_element, render, trie, value_element

ELEMENTS = st.sampled_from(["f:a", "f:b", "f:c", 'k:{"type":"Ready"}', 'v:"x"', "i:0"])
FIELD_SETS = st.frozensets(st.lists(ELEMENTS, min_size=1, max_size=4).map(tuple), max_size=12)


@given(FIELD_SETS)
def test_decoding_undoes_encoding(paths: frozenset[tuple[str, ...]]) -> None:
    assert decode(encode(paths)) == paths


@given(FIELD_SETS)
def test_a_trie_marks_exactly_the_members(paths: frozenset[tuple[str, ...]]) -> None:
    assert decode(trie(paths)) == paths


def test_a_container_is_marked_only_when_it_is_owned_itself() -> None:
    assert encode({("f:a", "f:b")}) == {"f:a": {"f:b": {}}}
    assert encode({("f:a",), ("f:a", "f:b")}) == {"f:a": {".": {}, "f:b": {}}}
    assert encode({("f:a",)}) == {"f:a": {}}


def test_the_form_of_the_real_server_is_read() -> None:
    fields = {
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:status": {"f:conditions": {'k:{"type":"Ready"}': {".": {}, "f:status": {}}}},
    }
    ready = key_element({"type": "Ready"})
    assert decode(fields) == {
        ("f:metadata", "f:labels"),
        ("f:metadata", "f:labels", "f:app"),
        ("f:status", "f:conditions", ready),
        ("f:status", "f:conditions", ready, "f:status"),
    }
    assert encode(decode(fields)) == fields


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("f:spec", "f:replicas"), ".spec.replicas"),
        (("f:containers", key_element({"name": "x"}), "f:image"), '.containers[name="x"].image'),
        (
            ("f:ports", key_element({"protocol": "TCP", "containerPort": 80})),
            '.ports[containerPort=80,protocol="TCP"]',
        ),
        (("f:metadata", "f:finalizers", value_element("a/b")), '.metadata.finalizers[="a/b"]'),
        (("f:list", "i:3"), ".list[3]"),
    ],
)
def test_paths_read_as_in_messages(path: tuple[str, ...], text: str) -> None:
    assert render(path) == text


@pytest.mark.parametrize("fields", [{"spec": {}}, {"f:spec": 1}, [], {"x:y": {}}])
def test_malformed_fields_are_refused(fields: object) -> None:
    with pytest.raises(ValueError, match="fieldsV1 has"):
        decode(fields)
