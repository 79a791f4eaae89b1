"""What belongs to an object as a drawing: where things stand, and what is in it."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.asked import Objects
from support.builders import condition, make, owner

from aim_cli.cluster.refs import Ref
from aim_cli.objects.tree import Node, tree
from aim_cli.why.command import why
from aim_console.graph import HEIGHT, MOST, WIDTH, Drawing, drawing, laid_out, name_lines
from aim_console.pages import href
from aim_domain.kind_names import (
    AIM_ARTIFACT,
    AIM_CLUSTER_SERVICE_TEMPLATE,
    AIM_SERVICE,
    AIM_TEMPLATE_CACHE,
    INFERENCE_SERVICE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
)

CHAT = Ref(AIM_SERVICE, "team", "chat")


def graphs() -> st.SearchStrategy[list[tuple[int, int]]]:
    return st.lists(st.tuples(st.integers(0, 14), st.integers(0, 14)), max_size=40)


# Where things stand


@pytest.mark.spec("FW-671")
@given(graphs())
def test_nodes_never_cover_each_other_and_edges_go_through_every_column(edges: list[tuple[int, int]]) -> None:
    laid = laid_out(range(15), edges)
    assert set(laid.spots) == set(range(15))
    for (column, place), (other, there) in combinations(laid.spots.values(), 2):
        assert column != other or abs(place - there) >= 1 - 1e-9
    assert set(laid.ways) == {edge for edge in edges if edge[0] != edge[1]}
    for (one, other), way in laid.ways.items():
        assert (way[0], way[-1]) == (laid.spots[one], laid.spots[other])
        columns = [column for column, _ in way]
        assert sorted(columns) in (columns, columns[::-1])
        assert len(set(columns)) == len(columns) == abs(columns[-1] - columns[0]) + 1
    assert min(place for _, place in laid.spots.values()) >= 0


@pytest.mark.spec("FW-671")
@given(graphs())
def test_without_rings_every_edge_goes_to_the_right(edges: list[tuple[int, int]]) -> None:
    falling = [(min(edge), max(edge)) for edge in edges if edge[0] != edge[1]]
    laid = laid_out(range(15), falling)
    assert all(laid.spots[one][0] < laid.spots[other][0] for one, other in falling)


@pytest.mark.spec("FW-671")
def test_a_tree_has_no_crossings_and_stands_straight() -> None:
    edges = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "e"), ("c", "f")]
    spots = laid_out("abcdef", edges).spots
    assert [spots[one][0] for one in "abcdef"] == [0, 1, 1, 2, 2, 2]
    assert spots["b"][1] < spots["c"][1]
    assert spots["d"][1] < spots["e"][1] < spots["f"][1]
    assert spots["b"][1] == pytest.approx(spots["d"][1])
    assert spots["c"][1] == pytest.approx((spots["e"][1] + spots["f"][1]) / 2)


@pytest.mark.spec("FW-671")
def test_of_a_ring_one_edge_goes_back() -> None:
    laid = laid_out("abc", [("a", "b"), ("b", "c"), ("c", "a")])
    assert [laid.spots[one][0] for one in "abc"] == [0, 1, 2]
    assert [column for column, _ in laid.ways["c", "a"]] == [2, 1, 0]
    assert laid_out((), ()).spots == {}


# What is in it


def picture(cluster: Objects) -> Drawing:
    reported, grown = why(cluster, CHAT), tree(cluster, CHAT)
    assert grown is not None
    return drawing(grown, reported.ways, href)


def lines(found: Drawing) -> dict[str, int]:
    return {name: sum(1 for line in found.lines if line.relation == name) for name in ("made", "uses", "waits")}


@pytest.mark.spec("FW-671")
def test_what_is_made_used_and_waited_for_is_drawn_each_once() -> None:
    failed = [condition("DownloadComplete", False, "AuthError", "no")]
    artifact = make(AIM_ARTIFACT, "w", namespace="team", status={"status": "Failed", "conditions": failed})
    cache = make(
        AIM_TEMPLATE_CACHE, "c", namespace="team", spec={"templateName": "t"},
        status={
            "status": "Degraded",
            "conditions": [condition("ArtifactsReady", False, "ArtifactsFailed", "1 of 1")],
            "artifacts": {"w": {"name": "w"}},
        },
    )  # fmt: skip
    chat = make(
        AIM_SERVICE, "chat", namespace="team",
        spec={},
        status={
            "status": "Degraded",
            "conditions": [condition("CacheReady", False, "ArtifactsFailed", "the cache")],
            "resolvedModel": {"kind": "AIMClusterModel", "name": "gone"},
            "resolvedTemplate": {"kind": "AIMClusterServiceTemplate", "scope": "Cluster", "name": "t"},
            "cache": {"templateCacheRef": {"kind": "AIMTemplateCache", "namespace": "team", "name": "c"}},
        },
    )  # fmt: skip
    claim = make(
        PERSISTENT_VOLUME_CLAIM, "w-cache", namespace="team", owners=[owner(artifact)], status={"phase": "Bound"}
    )
    template = make(AIM_CLUSTER_SERVICE_TEMPLATE, "t", spec={"modelName": "gone"}, status={"status": "Ready"})
    theirs = (AIM_CLUSTER_SERVICE_TEMPLATE, template), (AIM_ARTIFACT, artifact), (PERSISTENT_VOLUME_CLAIM, claim)
    found = picture(Objects((AIM_SERVICE, chat), (AIM_TEMPLATE_CACHE, cache), *theirs))
    boxes = {box.ref.name: box for box in found.boxes}
    assert {name: (box.state, box.mark) for name, box in boxes.items()} == {
        "chat": ("Degraded", "hurt"),
        "gone": ("missing", "hurt"),
        "t": ("Ready", "well"),
        "c": ("Degraded", "hurt"),
        "w": ("Failed", "broken"),
        "w-cache": ("Bound", "well"),
    }
    assert lines(found) == {"made": 1, "uses": 2, "waits": 2}, "what is waited for is not drawn as used as well"
    assert [box.ref.name for box in found.boxes if box.cause] == ["w"]
    assert boxes["gone"].href == "/objects/aimclustermodels/-/gone"
    assert boxes["chat"].x < boxes["c"].x < boxes["w"].x < boxes["w-cache"].x
    assert found.width >= boxes["w-cache"].x + WIDTH
    assert all(box.y + HEIGHT <= found.height for box in found.boxes)
    assert [line.relation for line in found.lines][-2:] == ["waits", "waits"], "over the others"


@pytest.mark.spec("FW-671")
def test_a_larger_tree_says_how_much_is_left_out() -> None:
    below = tuple(Node(Ref(POD, "team", f"p{number}"), "made", "Running") for number in range(MOST + 20))
    found = drawing(Node(Ref(INFERENCE_SERVICE, "team", "i"), "", "Ready", "", below), (), href)
    assert (len(found.boxes), found.left_out, lines(found)["made"]) == (MOST, 21, MOST - 1)


@pytest.mark.spec("FW-671")
def test_names_take_two_lines_and_tell_another_namespace() -> None:
    assert name_lines("a" * 28) == ("a" * 28,)
    assert name_lines("deepseek-r1-distill-70b-mi300x-fp8-latency") == (
        "deepseek-r1-distill-",
        "70b-mi300x-fp8-latency",
    )
    assert name_lines("a" * 40) == ("a" * 20, "a" * 20)
    longer = name_lines("aim-qwen-qwen3-32b-0-8-5-mi300x-fp8-latency-924a5444-predictor-abcde")
    assert longer == ("aim-qwen-qwen3-32b-0-8-5-mi…", "ncy-924a5444-predictor-abcde")
    assert {len(line) for line in longer} == {28}
    chat = make(
        AIM_SERVICE, "chat", namespace="team", spec={},
        status={"resolvedModel": {"kind": "AIMModel", "namespace": "other", "name": "m"}},
    )  # fmt: skip
    names = {box.name for box in picture(Objects((AIM_SERVICE, chat))).boxes}
    assert names == {("chat",), ("other/m",)}
