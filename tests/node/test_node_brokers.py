"""Three brokers with TLS, as the chart installs them: one is killed, evicted, restarted, and the streams are kept.

Names of the chart's cluster-wide objects are fixed, so a cluster takes one release: its values change for a while.
"""

import asyncio
import functools
import json
import os
import signal
from collections.abc import AsyncIterator
from typing import Final

import aiohttp
import pytest
import pytest_asyncio
import trustme
from support.node_pods import PodForm, Source, Target, is_ready, main_process, pods_of, waiting_pod
from support.node_release import install, restore, rolled_out
from support.on_node import OnNode
from support.rendered_broker import NAMES

from aim_domain.services import SERVICES
from aim_local.node import NodeError
from aim_local.node.platform import NAMESPACE
from controller_runtime import JsonObject

_BROKERS: Final = "aim-engine-nats"
_SECRET: Final = "suite-nats-tls"
_COMPONENT: Final = "app.kubernetes.io/name=aim-engine,app.kubernetes.io/component=nats"
_PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_CLAIMS: Final = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
_SECRETS: Final = f"/api/v1/namespaces/{NAMESPACE}/secrets"
_STATEFULSET: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{_BROKERS}"
_STREAMS: Final = frozenset({"AIM_STATE", "AIM_HISTORY", "AIM_DECISIONS"})

pytestmark = pytest.mark.spec("FW-580")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def brokers(node: OnNode) -> AsyncIterator[OnNode]:
    """The release with three brokers that show certificates; afterwards it has the one that it had."""
    await node.api.created(_SECRETS, tls_secret(authority()))
    nats = {"replicas": 3, "tls": {"secretName": _SECRET}, "reloader": {"enabled": False}}
    try:
        with pytest.raises(NodeError, match="delete statefulset aim-engine-nats"):
            await install(node, {"nats": nats})
        await node.kubectl("-n", NAMESPACE, "delete", "statefulset", _BROKERS)
        # With its check: `aim doctor` reads the streams of the three by TLS.
        await install(node, {"nats": nats})
        yield node
    finally:
        await back_to_one(node)
        await node.api.delete(f"{_SECRETS}/{_SECRET}")


async def back_to_one(node: OnNode) -> None:
    """The release with one broker, as docs/operations/broker.md says; without the second step the chart refuses it."""
    await node.kubectl("-n", NAMESPACE, "delete", "statefulset", _BROKERS, "--ignore-not-found")
    if await node.objects("pvc", "-n", NAMESPACE, f"--field-selector=metadata.name=data-{_BROKERS}-1"):
        with pytest.raises(NodeError, match="delete pvc -l"):
            await install(node)
    await node.kubectl("-n", NAMESPACE, "delete", "pvc", "-l", _COMPONENT)
    await restore(node)


@functools.cache
def authority() -> trustme.CA:
    """Of the first certificate of the brokers."""
    return trustme.CA()


def tls_secret(issuer: trustme.CA, *trusted: trustme.CA) -> JsonObject:
    """The Secret that docs/operations/broker.md describes: for servers and clients, with the names of both Services.

    Args:
        trusted: believed besides the issuer.
    """
    issued = issuer.issue_cert(*NAMES)
    content = {
        "tls.crt": b"".join(one.bytes() for one in issued.cert_chain_pems),
        "tls.key": issued.private_key_pem.bytes(),
        "ca.crt": b"".join(one.cert_pem.bytes() for one in (issuer, *trusted)),
    }
    text = {name: value.decode() for name, value in content.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": _SECRET}, "stringData": text}


async def streams_of(node: OnNode, pod: str) -> dict[str, JsonObject]:
    """The streams, as one broker has them."""
    address = (await node.api.get(f"{_PODS}/{pod}")).body["status"]["podIP"]
    url = f"http://{address}:8222/jsz?accounts=1&streams=1"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        accounts = json.loads(await answer.read())["account_details"]
    return {one["name"]: one for account in accounts for one in account.get("stream_detail", ())}


async def whole_streams(node: OnNode) -> dict[str, JsonObject]:
    """The streams once three brokers are ready and each copy is up to date, as their leaders have them."""
    async with asyncio.timeout(180):
        while True:
            pods = await pods_of(node, "nats")
            if len(pods) == 3 and all(map(is_ready, pods)):
                seen = [await streams_of(node, one["metadata"]["name"]) for one in pods]
                found = {
                    name: stream
                    for pod, streams in zip(pods, seen, strict=True)
                    for name, stream in streams.items()
                    if stream["cluster"].get("leader") == pod["metadata"]["name"]
                }
                if found.keys() == _STREAMS and all(map(is_whole, found.values())):
                    return found
            await asyncio.sleep(0.2)


def is_whole(stream: JsonObject) -> bool:
    """Whether both followers are there and up to date."""
    copies = stream["cluster"].get("replicas", ())
    return len(copies) == 2 and all(one["current"] and not one.get("offline") for one in copies)


def is_kept(before: JsonObject, after: JsonObject) -> bool:
    """Whether a stream went on where it was: made once, and nothing that came in was forgotten."""
    return bool(after["created"] == before["created"] and after["state"]["last_seq"] >= before["state"]["last_seq"])


async def a_service_comes_and_runs(node: OnNode) -> None:
    """The platform goes on: a service needs all five of its parts, which hear of each other by the broker alone."""
    async with node.namespace("brokers") as namespace:
        await node.running(await node.service(namespace, "chat"))


async def test_three_brokers_have_each_stream_three_times(brokers: OnNode) -> None:
    assert (await whole_streams(brokers)).keys() == _STREAMS
    for name in SERVICES:
        [pod] = await pods_of(brokers, name)
        env = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}
        assert env["AIM_NATS_URL"] == f"tls://{_BROKERS}.{NAMESPACE}.svc:4222"
    await a_service_comes_and_runs(brokers)


async def test_a_stream_survives_the_kill_of_its_leader(brokers: OnNode) -> None:
    before = await whole_streams(brokers)
    killed = before["AIM_HISTORY"]["cluster"]["leader"]
    restarts = (await brokers.api.get(f"{_PODS}/{killed}")).body["status"]["containerStatuses"][0]["restartCount"]
    os.kill(await main_process(brokers, NAMESPACE, killed), signal.SIGKILL)
    await a_service_comes_and_runs(brokers)
    await brokers.until(
        f"{_PODS}/{killed}", lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] == restarts + 1
    )
    after = await whole_streams(brokers)
    assert all(is_kept(before[name], after[name]) for name in _STREAMS)
    assert after["AIM_HISTORY"]["state"]["last_seq"] > before["AIM_HISTORY"]["state"]["last_seq"]


async def test_a_broker_without_its_volume_catches_up(brokers: OnNode) -> None:
    before = await whole_streams(brokers)
    lost, claim = f"{_BROKERS}-2", f"{_CLAIMS}/data-{_BROKERS}-2"
    pod = (await brokers.api.get(f"{_PODS}/{lost}")).body["metadata"]["uid"]
    volume = (await brokers.api.get(claim)).body["metadata"]["uid"]
    # The claim goes when its pod has gone, and the StatefulSet makes both again.
    await brokers.api.delete(claim)
    await brokers.api.delete(f"{_PODS}/{lost}")
    await brokers.until(claim, lambda one: one["metadata"]["uid"] != volume and one["status"].get("phase") == "Bound")
    await brokers.until(f"{_PODS}/{lost}", lambda one: one["metadata"]["uid"] != pod and is_ready(one))
    after = await whole_streams(brokers)
    assert all(is_kept(before[name], after[name]) for name in _STREAMS)


async def test_one_broker_at_a_time_is_evicted(brokers: OnNode) -> None:
    await whole_streams(brokers)
    budget = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/{_BROKERS}"
    await brokers.until(budget, lambda one: one["status"].get("disruptionsAllowed") == 1)
    replies = [await evict(brokers, f"{_BROKERS}-{number}") for number in (0, 1)]
    assert replies == [201, 429]
    await whole_streams(brokers)


async def evict(node: OnNode, pod: str) -> int:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE}}
    return (await node.api.post(f"{_PODS}/{pod}/eviction", body)).status


async def test_another_ca_takes_two_restarts_which_keep_the_streams(brokers: OnNode) -> None:
    before = await whole_streams(brokers)
    other = trustme.CA()
    await restart_with(brokers, tls_secret(authority(), other))
    await whole_streams(brokers)
    await restart_with(brokers, tls_secret(other, authority()))
    after = await whole_streams(brokers)
    assert all(is_kept(before[name], after[name]) for name in _STREAMS)
    await a_service_comes_and_runs(brokers)


async def restart_with(node: OnNode, secret: JsonObject) -> None:
    """Change the files of the brokers' Secret and restart what reads them."""
    former = (await node.api.get(f"{_SECRETS}/{_SECRET}")).body["data"]["tls.crt"]
    reply = await node.api.merge(f"{_SECRETS}/{_SECRET}", {"stringData": secret["stringData"]})
    assert reply.body["data"]["tls.crt"] != former
    selector = "app.kubernetes.io/name=aim-engine"
    await node.kubectl("-n", NAMESPACE, "rollout", "restart", "statefulset,deployment", "-l", selector)
    await node.kubectl("-n", NAMESPACE, "rollout", "status", f"statefulset/{_BROKERS}", "--timeout=180s")
    await rolled_out(node, *SERVICES)


@pytest.mark.spec("FW-701")
async def test_brokers_alone_reach_the_port_by_which_they_know_each_other(brokers: OnNode) -> None:
    pods = [(await brokers.api.get(f"{_PODS}/{_BROKERS}-{number}")).body for number in (0, 1)]
    other = {"cluster": Target(pods[1]["status"]["podIP"], 6222)}
    assert await Source(brokers, NAMESPACE, f"{_BROKERS}-0", python=False).attempts(other) == {"cluster": ""}
    [serving] = await pods_of(brokers, "serving")
    own = await Source(brokers, NAMESPACE, serving["metadata"]["name"]).attempts(other)
    assert own["cluster"], "a service has no business there"
    async with (
        brokers.namespace("foreign") as namespace,
        waiting_pod(brokers, namespace, PodForm("trying")) as foreign,
    ):
        assert (await foreign.attempts(other))["cluster"]
