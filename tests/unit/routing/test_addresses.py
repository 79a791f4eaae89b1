"""Which addresses of a gateway overlap, and that overlapping ones are found through the index."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aim_domain.path_template import PathTemplateError
from aim_routing.address import Address, hosts_overlap, paths_overlap
from aim_routing.path import normalise

SEGMENTS = st.lists(st.sampled_from(["a", "b", "a-b"]), max_size=11)
PATHS = SEGMENTS.map(lambda segments: f"/{'/'.join(segments)}")
NAMES = st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=11).map(".".join)
HOSTS = st.one_of(NAMES, NAMES.map(lambda name: f"*.{name}"))
ADDRESSES = st.builds(
    Address, st.sampled_from(["Gateway infra/gw", "Gateway infra/gw2"]), st.lists(HOSTS, max_size=3).map(tuple), PATHS
)
RAW = st.text(st.sampled_from("aB/.%2fF-_ \\\t\u212a\u00e9"), max_size=24)


@pytest.mark.spec("RT-122")
@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ("/demo/chat", "/demo/chat", True),
        ("/demo/chat", "/demo/chat/v1", True),
        ("/demo", "/demo/chat/v1", True),
        ("/", "/demo/chat", True),
        ("/demo/chat", "/demo/chat-2", False),
        ("/demo/chat", "/demo/other", False),
        ("/demo/chat", "/team/demo/chat", False),
    ],
)
def test_paths_overlap_by_whole_segments(one: str, other: str, overlap: bool) -> None:
    assert paths_overlap(one, other) is overlap
    assert paths_overlap(other, one) is overlap


@pytest.mark.spec("RT-124")
@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ("chat.example.com", "chat.example.com", True),
        ("chat.example.com", "code.example.com", False),
        ("*.example.com", "chat.example.com", True),
        ("*.example.com", "a.chat.example.com", True),
        ("*.example.com", "*.chat.example.com", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", "chat.an-example.com", False),
        ("", "chat.example.com", True),
        ("", "", True),
    ],
)
def test_a_wildcard_covers_what_lies_below_it(one: str, other: str, overlap: bool) -> None:
    assert hosts_overlap(one, other) is overlap
    assert hosts_overlap(other, one) is overlap


@pytest.mark.spec("RT-122", "RT-124")
@given(ADDRESSES, ADDRESSES)
def test_overlap_is_mutual_and_is_found_from_either_side(one: Address, other: Address) -> None:
    assert one.overlaps(one)
    assert one.overlaps(other) is other.overlaps(one)
    if one.overlaps(other):
        assert one.search_values() & other.index_values()
        assert other.search_values() & one.index_values()


@pytest.mark.spec("RT-127")
@given(ADDRESSES)
def test_a_search_takes_few_look_ups_however_deep_an_address_is(address: Address) -> None:
    nodes = 10
    assert len(address.search_values()) <= max(1, len(address.hostnames)) * nodes * nodes
    assert len(address.index_values()) <= max(1, len(address.hostnames)) * nodes * nodes


@pytest.mark.spec("RT-127")
def test_neighbours_are_not_found_by_a_search() -> None:
    own = Address("g", (), "/team/chat")
    assert not own.search_values() & Address("g", (), "/team/other").index_values()
    named = Address("g", ("chat.example.com",), "/")
    assert not named.search_values() & Address("g", ("code.example.com",), "/").index_values()


@pytest.mark.spec("RT-109")
@pytest.mark.parametrize(
    "text",
    [
        "/demo%2Fchat",
        "/demo/%2e%2e/x",
        "/a/../demo",
        "/a/./demo",
        "/a/...",
        "/..",
        "/a\\demo",
        "/a/\x00b",
        "/a/\x7fb",
        "/a/ .. /b",
    ],
)
def test_what_has_no_safe_form_is_refused(text: str) -> None:
    with pytest.raises(PathTemplateError, match="proxies read in different ways"):
        normalise(text)


@pytest.mark.spec("RT-109")
@pytest.mark.parametrize("text", ["/Demo/Chat", "//demo//chat/", "demo/chat", "/demo/chat///", " /demo/-chat-/ "])
def test_spelling_makes_no_other_path(text: str) -> None:
    assert normalise(text) == "/demo/chat"


@pytest.mark.spec("RT-109", "RT-104")
@given(RAW)
def test_a_path_is_canonical_or_refused(text: str) -> None:
    try:
        path = normalise(text)
    except PathTemplateError:
        return
    assert set(path) <= set("abcdefghijklmnopqrstuvwxyz0123456789-/")
    assert "//" not in path
    assert path == "/" or not path.endswith("/")
    assert normalise(path) == path
