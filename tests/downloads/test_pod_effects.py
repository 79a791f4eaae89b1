"""What the effects read about pods, against an API server."""

import pytest
from support.controlplane import RawApi
from support.fake_apiserver import fake_apiserver, status_answer, text_answer

from aim_domain.pods.facts import EventsParams, LogParams, read_pod_events, read_pod_log
from controller_runtime import Category, EffectError, JsonObject, KubeClient
from controller_runtime.kube.config import Connection, NoCredentials
from embedded_apiserver import ControlPlane

LOG = LogParams(namespace="ml", pod="pod-1", container="model-download")


@pytest.mark.spec("AR-352", "FW-146", "FW-343")
async def test_the_log_tail_is_masked() -> None:
    async with fake_apiserver(text_answer("401 for hf_secretsecret\n")) as server:
        async with KubeClient(server.connection, service="test") as kube:
            assert (await read_pod_log(kube, LOG)).tail == "401 for ***\n"
        (request,) = server.seen
    assert request.path == "/api/v1/namespaces/ml/pods/pod-1/log"
    assert (request.query["container"], request.query["tailLines"]) == ("model-download", "50")


@pytest.mark.spec("FW-146")
async def test_a_log_that_can_not_be_read_is_a_classified_failure() -> None:
    async with (
        fake_apiserver(status_answer(403, "Forbidden", "no")) as server,
        KubeClient(server.connection, service="test") as kube,
    ):
        with pytest.raises(EffectError) as failure:
            await read_pod_log(kube, LOG)
    assert failure.value.error.category is Category.AUTH


def event(name: str, uid: str, reason: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "pod-1", "uid": uid},
        "reason": reason,
        "message": f"{reason} happened",
        "lastTimestamp": "2026-11-21T12:00:00Z",
    }


@pytest.mark.spec("FW-155")
async def test_events_are_those_of_exactly_this_pod(controlplane: ControlPlane, api: RawApi) -> None:
    for one in (event("mine", "uid-1", "FailedScheduling"), event("former", "uid-0", "FailedMount")):
        reply = await api.send("POST", "/api/v1/namespaces/default/events", one)
        assert reply.status == 201, reply.body
    params = EventsParams(namespace="default", pod="pod-1", uid="uid-1")
    async with KubeClient(Connection(controlplane.url, NoCredentials()), service="test") as kube:
        outcome = await read_pod_events(kube, params)
    assert [found["reason"] for found in outcome.events] == ["FailedScheduling"]
