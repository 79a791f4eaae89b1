"""Autoscaling with KServe, KEDA, the HPA controller, metrics-server and the OpenTelemetry operator, all real."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio
from support.autoscaled_node import (
    ADMITS_SIDECARS,
    RUNNING,
    SIDECAR,
    aim,
    answering_pods,
    load,
    outside_metric,
    scaled_value,
    soon_scaled_down,
    until_measured,
)
from support.nats import eventually
from support.on_node import OnNode
from support.scaling import reason_of, shown

from aim_local.actors.hpa import Outcome
from aim_local.actors.hpa import status_for as hpa_status
from aim_local.actors.keda import hpa_for, hpa_name
from aim_local.actors.keda import status_for as scaled_object_status
from aim_local.actors.kserve import autoscaler_for, collector_for
from controller_runtime import JsonObject

SLOW = [{"name": "AIM_ENGINE_SECONDS_PER_TOKEN", "value": "0.1"}]
"""A long request occupies an engine for minutes."""
SECONDS = 300
"""KEDA polls every 30 s, the HPA controller every 5 s, a collector every 5 s."""
QUIET: JsonObject = {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}

WINDOW: Final = 15
"""Seconds for which KEDA's HPA keeps the highest number of replicas that it had."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def scaling(node: OnNode) -> AsyncIterator[OnNode]:
    """The node, with a short stabilization window instead of 300 s for scaling down by KEDA."""
    await until_measured(node)
    async with soon_scaled_down(node, WINDOW):
        yield node


def by_metric(query: str, *, least: int, target: str, names: tuple[str, ...] = ()) -> JsonObject:
    """Part of a spec: autoscaling from ``least`` to two replicas by one metric."""
    source: JsonObject = {"query": query, **({"metricNames": list(names)} if names else {})}
    metric = {"type": "PodMetric", "podmetric": {"metric": source, "target": {"type": "Value", "value": target}}}
    return {"minReplicas": least, "maxReplicas": 2, "autoScaling": {"metrics": [metric]}}


async def isvc_of(node: OnNode, namespace: str) -> str:
    """Name of the one InferenceService."""
    (one,) = await node.objects("inferenceservices", "-n", namespace)
    return str(one["metadata"]["name"])


async def until_unmeasured(node: OnNode, namespace: str) -> None:
    """Wait until the HPA reports that metrics-server has no sample of the new pods yet."""

    async def is_reported() -> bool:
        found = await node.objects("horizontalpodautoscalers", "-n", namespace)
        return [reason_in(one, "ScalingActive") for one in found] == ["FailedGetResourceMetric"]

    await eventually(is_reported, "the HPA has no sample", within=SECONDS, interval=0.5)


async def timeline(node: OnNode, namespace: str, *parts: str) -> str:
    """Output of `aim timeline` for the service once it contains these texts in this order."""
    output = ""

    async def is_complete() -> bool:
        nonlocal output
        output = (await aim(node, "timeline", "aimservice", f"{namespace}/chat")).out
        at = 0
        for part in parts:
            at = output.find(part, at) + len(part)
            if at < len(part):
                return False
        return True

    try:
        await eventually(is_complete, "the timeline is complete", within=30, interval=1)
    except AssertionError:
        pytest.fail(f"not in this order: {parts}\n{output}")
    return output


@pytest.mark.spec("SV-183", "SV-185", "SV-209", "FW-725")
async def test_load_on_the_engine_adds_a_second_pod_and_its_end_removes_it(scaling: OnNode) -> None:
    node = scaling
    async with node.namespace("load", **ADMITS_SIDECARS) as namespace:
        scaled = by_metric(RUNNING, least=1, target="2", names=(RUNNING,))
        path = await node.service(namespace, "chat", env=SLOW, **scaled)
        service = await node.running(path, SECONDS)
        route, isvc = service["status"]["routing"]["path"], await isvc_of(node, namespace)
        (pod,) = await node.objects("pods", "-n", namespace, "-l", "component=predictor")
        assert {one["name"] for one in pod["spec"]["containers"]} == {"kserve-container", SIDECAR}
        await node.until(path, lambda obj: shown(obj) == ("Running", "1/1 (1-2)"), SECONDS)

        async with load(node, route, requests=4):
            deployment = f"{isvc}-predictor"

            async def is_measured() -> bool:
                return await scaled_value(node, namespace, deployment) == 4

            await eventually(is_measured, "the scaler has four requests", within=60, interval=0.5)
            await node.until(path, lambda obj: shown(obj) == ("Running", "2/2 (1-2)"), SECONDS)

            async def both_answer() -> bool:
                return len(await answering_pods(node, route)) == 2

            await eventually(both_answer, "both engines answer through the route", within=60, interval=0.5)
            # KServe repeats the Deployment's ReplicaSetUpdated, while the first pod serves.
            await timeline(node, namespace, "status Running → Starting", "status Starting → Running")
        await node.until(path, lambda obj: shown(obj) == ("Running", "1/1 (1-2)"), SECONDS)
        metric = f"s0-{namespace}-{deployment} "
        await timeline(node, namespace, f"replicas 1 → 2: {metric}", "of target 2", "replicas 2 → 1: ", metric)


@pytest.mark.spec("SV-285", "FW-725")
async def test_a_service_scales_to_zero_and_back(scaling: OnNode, tmp_path: Path) -> None:
    node = scaling
    waiting = "gateway_waiting_requests"
    async with node.namespace("zero", **ADMITS_SIDECARS) as namespace:
        path = await node.service(namespace, "chat", env=SLOW, **by_metric(waiting, least=0, target="2"))
        await node.until(path, lambda obj: shown(obj) == ("Running", "0/0 (0-2)"), SECONDS)
        asleep = await node.until(path, lambda obj: reason_of(obj, "HPAReady") == "ScaledToZero", 60)
        assert reason_of(asleep, "InferenceServicePodsReady") == "ScaledToZero"
        scaled_objects = f"/apis/keda.sh/v1alpha1/namespaces/{namespace}/scaledobjects"
        (one,) = (await node.api.get(scaled_objects)).body["items"]
        name = one["metadata"]["name"]
        async with outside_metric(node, tmp_path, waiting, namespace=namespace, deployment=name) as gateway:
            gateway.value = 1
            await node.until(path, lambda obj: shown(obj) == ("Running", "1/1 (0-2)"), SECONDS)
            gateway.value = 4
            await node.until(path, lambda obj: shown(obj) == ("Running", "2/2 (0-2)"), SECONDS)
            gateway.value = 0
            where = f"{scaled_objects}/{name}"
            await node.until(where, lambda obj: reason_of(obj, "Active") == "ScalerCooldown", SECONDS)
            # The cooldown takes five minutes, counted from this time.
            reply = await node.api.merge(f"{where}/status", {"status": {"lastActiveTime": "2026-01-01T00:00:00Z"}})
            assert reply.status == 200, reply.body
            await node.until(path, lambda obj: shown(obj) == ("Running", "0/0 (0-2)"), SECONDS)
        await timeline(node, namespace, "replicas 1 → 2: ", "4 of target 2")


@pytest.mark.spec("SV-182", "SV-207", "FW-725")
async def test_cpu_load_adds_a_second_pod_and_its_end_removes_it(scaling: OnNode) -> None:
    node = scaling
    async with node.namespace("cpu") as namespace:
        path = await node.service(namespace, "chat", resources=QUIET, minReplicas=1, maxReplicas=2)
        await until_unmeasured(node, namespace)
        service = await node.running(path, SECONDS)
        (isvc,) = await node.objects("inferenceservices", "-n", namespace)
        (hpa,) = await node.objects("horizontalpodautoscalers", "-n", namespace)
        assert_covers(hpa, autoscaler_for(isvc))
        scale_down = (hpa["spec"].get("behavior") or {}).get("scaleDown") or {}
        assert "stabilizationWindowSeconds" not in scale_down, "the window is that of the controller manager"
        async with load(node, service["status"]["routing"]["path"], requests=4, tokens=50):
            await node.until(path, lambda obj: shown(obj) == ("Running", "2/2 (1-2)"), SECONDS)
        await node.until(path, lambda obj: shown(obj) == ("Running", "1/1 (1-2)"), SECONDS)
        output = await timeline(node, namespace, "replicas 1 → 2: cpu ", "% of target 80%", "replicas 2 → 1: cpu ")
        assert f"HorizontalPodAutoscaler {namespace}/" in output


@pytest.mark.spec("SV-196")
async def test_a_restricted_namespace_rejects_the_collector(scaling: OnNode) -> None:
    node = scaling
    async with node.namespace("refused") as namespace:
        path = await node.service(namespace, "chat", **by_metric(RUNNING, least=1, target="2", names=(RUNNING,)))

        async def is_explained() -> bool:
            why = (await aim(node, "why", "aimservice", f"{namespace}/chat")).out
            return 'violates PodSecurity "restricted' in why and f'container "{SIDECAR}"' in why

        await eventually(is_explained, "aim why names the container", within=SECONDS, interval=2)
        service = await node.until(path, lambda obj: reason_of(obj, "InferenceServicePodsReady") == "NoPods", 60)
        assert shown(service)[0] == "Starting"


@pytest.mark.spec("SV-185")
async def test_the_actors_write_what_the_real_controllers_write(scaling: OnNode) -> None:
    node = scaling
    async with node.namespace("alike", **ADMITS_SIDECARS) as namespace:
        scaled = by_metric(RUNNING, least=1, target="2", names=(RUNNING,))
        await node.running(await node.service(namespace, "chat", **scaled), SECONDS)
        (isvc,) = await node.objects("inferenceservices", "-n", namespace)
        (deployment,) = await node.objects("deployments", "-n", namespace)

        (scaled_object,) = await node.objects("scaledobjects", "-n", namespace)
        wanted = autoscaler_for(isvc)
        assert wanted is not None
        # The actor has KServe's default, this node another.
        behavior = wanted["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
        behavior["scaleDown"]["stabilizationWindowSeconds"] = WINDOW
        assert_covers(scaled_object, wanted)
        (collector,) = await node.objects("opentelemetrycollectors", "-n", namespace)
        assert_covers(collector, collector_for(isvc))
        # For the length of the window the first recommendation, one replica, counts; then no metric asks for any.
        where = f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/{hpa_name(scaled_object)}"
        hpa = await node.until(where, lambda obj: reason_in(obj, "AbleToScale") == "ReadyForNewScale", 90)
        assert_covers(hpa, hpa_for(scaled_object))
        where = f"/apis/keda.sh/v1alpha1/namespaces/{namespace}/scaledobjects/{scaled_object['metadata']['name']}"
        polled = ("ScalerNotActive", "HPAActive")
        scaled_object = await node.until(
            where, lambda obj: (reason_in(obj, "Active"), reason_in(obj, "HPAActive")) == polled, 90
        )

        outcome = Outcome(current=1, desired=1, asked=0, rescaled=False, failed=False)
        assert conditions(hpa["status"]) == conditions(hpa_status(hpa, outcome, ""))
        wanted = scaled_object_status(scaled_object, deployment, hpa, active=False)
        assert conditions(scaled_object["status"]) == conditions(wanted)
        members = ("externalMetricNames", "triggersActivity", "hpaName", "scaleTargetKind", "originalReplicaCount")
        assert {one: scaled_object["status"].get(one) for one in members} == {one: wanted.get(one) for one in members}


def assert_covers(real: JsonObject, simulated: JsonObject | None) -> None:
    """Everything that an actor writes is in the real object, except UIDs and the version of a build without release."""
    assert simulated is not None
    for path, value in leaves(simulated):
        if path[-1] not in {"uid", "app.kubernetes.io/version"}:
            assert at(real, path) == value, path


def reason_in(obj: JsonObject, condition: str) -> str:
    """Reason of a condition; empty without it."""
    found = (obj.get("status") or {}).get("conditions") or ()
    return next((str(one.get("reason", "")) for one in found if one["type"] == condition), "")


def leaves(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], object]]:
    """All scalars with their paths."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, (*path, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, index))
    else:
        yield path, value


def at(value: object, path: tuple[str | int, ...]) -> object:
    """The member at a path; None if it is missing."""
    for step in path:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def conditions(status: JsonObject) -> dict[str, tuple[str, str, str]]:
    """Status, reason and message by type."""
    return {one["type"]: (one["status"], one.get("reason", ""), one.get("message", "")) for one in status["conditions"]}
