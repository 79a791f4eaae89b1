"""Where a model answers and what it says, and whose logs are those of a service. No cluster."""

import json

import pytest
from support.asked import Objects
from support.builders import make, owner

from aim_cli.cluster.asking import split_lines
from aim_cli.cluster.refs import JsonObject, Ref
from aim_cli.errors import AbsentError, Exit, TargetError
from aim_cli.objects.chat import address_of, pieces
from aim_cli.objects.pod_logs import last_words, speakers
from aim_cli.objects.tree import tree
from aim_domain import labels
from aim_domain.kind_names import AIM_ARTIFACT, AIM_SERVICE, AIM_TEMPLATE_CACHE, GATEWAY, HTTP_ROUTE, POD, KindName
from aim_domain.naming import http_route_name, inference_service_name

TEAM = "team"
CHAT = Ref(AIM_SERVICE, TEAM, "chat")


def service(path: str = "/team/chat", **status: object) -> JsonObject:
    return make(AIM_SERVICE, "chat", namespace=TEAM, spec={}, status={"routing": {"path": path}, **status})


def routed(listener: JsonObject, address: str = "10.0.0.1", section: str = "") -> Objects:
    parent = {"name": "g", "namespace": "infra", **({"sectionName": section} if section else {})}
    route = make(HTTP_ROUTE, http_route_name("chat", TEAM), namespace=TEAM, spec={"parentRefs": [parent]})
    listeners = [{"name": "other", "port": 1, "protocol": "HTTP"}, listener]
    status = {"addresses": [{"value": address}] if address else []}
    gateway = make(GATEWAY, "g", namespace="infra", spec={"listeners": listeners}, status=status)
    return Objects((AIM_SERVICE, service()), (HTTP_ROUTE, route), (GATEWAY, gateway))


@pytest.mark.spec("FW-617")
def test_the_address_is_that_of_the_gateway_or_the_one_that_is_named() -> None:
    secure = {"name": "tls", "port": 8443, "protocol": "HTTPS"}
    assert address_of(routed(secure, section="tls"), CHAT, "") == "https://10.0.0.1:8443/team/chat"
    assert address_of(routed(secure), CHAT, "") == "http://10.0.0.1:1/team/chat"
    assert address_of(routed(secure), CHAT, "http://127.0.0.1:8080/") == "http://127.0.0.1:8080/team/chat"


@pytest.mark.spec("FW-617")
@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        (Objects((AIM_SERVICE, service(path=""))), "has no route"),
        (Objects((AIM_SERVICE, service())), "tells no address"),
        (routed({"name": "x", "port": 2}, address=""), "tells no address"),
    ],
)
def test_without_an_address_it_says_what_to_do(cluster: Objects, said: str) -> None:
    with pytest.raises(TargetError, match=said):
        address_of(cluster, CHAT, "")


@pytest.mark.spec("FW-617", "FW-602")
def test_who_is_not_there_cannot_be_talked_to() -> None:
    with pytest.raises(AbsentError, match="AIMService team/chat does not exist") as raised:
        address_of(Objects(), CHAT, "")
    assert raised.value.code is Exit.ABSENT


@pytest.mark.spec("FW-617")
def test_answers_that_stream_and_answers_that_do_not() -> None:
    def event(text: str | None) -> str:
        return f"data: {json.dumps({'choices': [{'delta': {'content': text}}]})}"

    stream = [event("Hel"), "", ": comment", event("lo"), event(None), "data: not json", "data: [DONE]"]
    assert list(pieces(stream)) == ["Hel", "lo"]
    assert list(pieces([json.dumps({"choices": [{"message": {"content": "Hello"}}]})])) == ["Hello"]
    assert list(pieces(["[]", "{}"])) == []


def test_lines_of_a_stream_that_is_cut_anywhere() -> None:
    text = "eins\nzwei ä\n\ndrei".encode()
    for cut in range(len(text)):
        assert list(split_lines([text[:cut], text[cut:]])) == ["eins", "zwei ä", "", "drei"]


def pod(name: str, label: str, value: str) -> tuple[object, JsonObject]:
    return POD, make(POD, name, namespace=TEAM, labels={label: value}, spec={"containers": [{"name": "c"}]})


@pytest.mark.spec("FW-616")
def test_the_last_phase_that_has_pods_speaks() -> None:
    cache = {"kind": "x/AIMTemplateCache", "name": "c", "namespace": TEAM}
    template = {"kind": "x/AIMServiceTemplate", "name": "t", "namespace": TEAM}
    obj = service(cache={"templateCacheRef": cache}, resolvedTemplate=template)
    reported = make(AIM_TEMPLATE_CACHE, "c", namespace=TEAM, spec={}, status={"artifacts": {"u": {"name": "a"}}})
    model = pod("model", labels.KSERVE_INFERENCE_SERVICE, inference_service_name("chat", TEAM))
    download = pod("download", labels.CACHE_NAME, "a")
    discovery = pod("discovery", labels.TEMPLATE, "t")
    foreign = pod("foreign", labels.CACHE_NAME, "b")
    others = make(POD, "others", namespace=TEAM, spec={"containers": [{"name": "c"}]})
    others["metadata"]["labels"] = {labels.TEMPLATE: "t", labels.KSERVE_INFERENCE_SERVICE: "another"}
    known = [(AIM_SERVICE, obj), (AIM_TEMPLATE_CACHE, reported), foreign, (POD, others)]
    for pods, names in (
        ([model, download, discovery], ["model"]),
        ([download, discovery], ["download"]),
        ([discovery], ["discovery"]),
        ([], []),
    ):
        found = speakers(Objects(*known, *pods), CHAT, obj)  # type: ignore[arg-type]
        assert [one.pod.name for one in found] == names


@pytest.mark.spec("FW-685")
def test_of_a_container_that_waits_for_its_next_start_the_one_before_speaks() -> None:
    kind, crashed = pod("model", labels.KSERVE_INFERENCE_SERVICE, inference_service_name("chat", TEAM))
    ended = {"terminated": {"exitCode": 1}}
    for state, previous in (
        ({"waiting": {"reason": "CrashLoopBackOff"}}, True),
        ({"running": {}}, False),
        (ended, False),
    ):
        reported = {"name": "c", "restartCount": 2, "state": state, "lastState": ended}
        known: JsonObject = {**crashed, "status": {"containerStatuses": [reported]}}
        (one,) = speakers(Objects((kind, known)), CHAT, service())  # type: ignore[arg-type]
        assert (one.start, one.previous) == (2, previous)


@pytest.mark.spec("FW-685")
def test_of_pods_that_are_gone_the_status_still_tells() -> None:
    cache = {"kind": "x/AIMTemplateCache", "name": "c", "namespace": TEAM}
    obj = service(cache={"templateCacheRef": cache})
    reported = make(AIM_TEMPLATE_CACHE, "c", namespace=TEAM, spec={}, status={"artifacts": {"u": {"name": "a"}}})
    untrue = [{"type": "DownloadComplete", "status": "False", "reason": "AuthError", "message": "the token is refused"}]
    status = {"status": "Failed", "progress": {"displayPercentage": "45 %"}, "conditions": untrue}
    artifact = make(AIM_ARTIFACT, "a", namespace=TEAM, spec={}, status=status)
    cluster = Objects((AIM_SERVICE, obj), (AIM_TEMPLATE_CACHE, reported), (AIM_ARTIFACT, artifact))
    assert last_words(cluster, CHAT, obj) == ["AIMArtifact team/a: Failed, 45 %, AuthError, the token is refused"]
    assert last_words(Objects((AIM_SERVICE, obj)), CHAT, obj) == []


@pytest.mark.spec("FW-616", "FW-607")
@pytest.mark.parametrize(
    ("caching", "name"), [({}, "shared"), ({"mode": "Shared"}, "shared"), ({"mode": "Dedicated"}, "own"), (None, "own")]
)
def test_a_download_that_failed_speaks_though_the_service_names_its_cache_no_more(
    caching: JsonObject | None, name: str
) -> None:
    template = {"kind": "x/AIMClusterServiceTemplate", "scope": "Cluster", "name": "t"}
    obj = service(cache={"retryAttempts": 1}, resolvedTemplate=template)
    obj["spec"] = {} if caching is None else {"caching": caching}

    def cache(name: str, template: str, *owners: JsonObject) -> tuple[KindName, JsonObject]:
        reported = {"artifacts": {"u": {"name": name}}}
        spec = {"templateName": template}
        return AIM_TEMPLATE_CACHE, make(
            AIM_TEMPLATE_CACHE, name, namespace=TEAM, spec=spec, status=reported, owners=owners
        )

    others = make(AIM_SERVICE, "other", namespace=TEAM)
    caches = [cache("another", "t2"), cache("theirs", "t", owner(others))]
    caches += [cache("shared", "t")] if caching is not None else []
    caches += [cache("own", "t", owner(obj))] if name == "own" else []
    pods = [pod(f"of-{one}", labels.CACHE_NAME, one) for one in ("another", "theirs", "shared", "own")]
    cluster = Objects((AIM_SERVICE, obj), *caches, *pods)  # type: ignore[arg-type]
    assert [one.pod.name for one in speakers(cluster, CHAT, obj)] == [f"of-{name}"]
    grown = tree(cluster, CHAT)
    assert grown is not None
    assert {one.ref.name for one in grown.below if one.ref.kind == AIM_TEMPLATE_CACHE} == {name}
