"""Whose Events and logs the page of an object asks for. No cluster."""

import pytest
from support.builders import make

from aim_cli.cluster.refs import JsonObject, Ref
from aim_cli.objects.tree import Node
from aim_console.events_page import OBJECTS, Container, containers_of, subjects_of
from aim_domain import kinds
from aim_domain.kind_names import AIM_CLUSTER_MODEL, AIM_SERVICE, INFERENCE_SERVICE, POD

CHAT = Ref(AIM_SERVICE, "team", "chat")


@pytest.mark.spec("FW-872")
def test_the_object_is_asked_about_first_then_its_pods_and_what_the_platform_writes_of_itself_not_at_all() -> None:
    pods = tuple(Node(Ref(POD, "team", f"p{number}"), "made", "Running") for number in range(20))
    workload = Node(Ref(INFERENCE_SERVICE, "team", "i"), "made", "Ready", "", pods)
    model = Node(Ref(AIM_CLUSTER_MODEL, "", "m"), "uses", "Ready")
    gone = Node(Ref(POD, "team", "gone"), "made", "missing")
    found = subjects_of(Node(CHAT, "", "Running", "", (model, gone, workload)))
    assert [ref.name for ref in found] == ["chat", *(f"p{number}" for number in range(OBJECTS - 1))]
    few = subjects_of(Node(CHAT, "", "Running", "", (model, Node(workload.ref, "made", "Ready", "", pods[:1]))))
    assert [ref.name for ref in few] == ["chat", "p0", "i"]


def running(name: str) -> JsonObject:
    return {"name": name, "state": {"running": {}}}


def ended(name: str, code: int) -> JsonObject:
    return {"name": name, "state": {"terminated": {"exitCode": code}}}


def looping(name: str) -> JsonObject:
    return {"name": name, "state": {"waiting": {}}, "lastState": {"terminated": {"exitCode": 1}}}


@pytest.mark.spec("FW-872")
@pytest.mark.parametrize(
    ("init", "own", "named"),
    [
        ([], [running("engine")], [("engine", False)]),
        ([ended("prepare", 0)], [running("engine")], [("engine", False)]),
        ([looping("prepare")], [{"name": "engine", "state": {"waiting": {}}}], [("prepare", True)]),
        ([ended("one", 0), running("two")], [{"name": "engine", "state": {"waiting": {}}}], [("two", False)]),
        # A sidecar is an init container that does not end.
        ([running("sidecar")], [running("engine")], [("engine", False)]),
        ([running("sidecar")], [{"name": "engine", "state": {"waiting": {}}}], [("sidecar", False)]),
        ([], [looping("engine"), running("proxy")], [("engine", True), ("proxy", False)]),
        # Nothing has started yet.
        ([], [], [("engine", False)]),
    ],
)
def test_the_logs_are_of_the_containers_that_matter_now(
    init: list[JsonObject], own: list[JsonObject], named: list[tuple[str, bool]]
) -> None:
    status = {"initContainerStatuses": init, "containerStatuses": own}
    pod = make(kinds.POD, "p", namespace="team", spec={"containers": [{"name": "engine"}]}, status=status)
    ref = Ref(POD, "team", "p")
    assert list(containers_of(ref, pod)) == [Container(ref, *one) for one in named]
