"""Nodes with their labels (DI-174…DI-186), and the scheduler that binds pods to them in turn."""

import asyncio
from datetime import UTC, datetime
from itertools import count
from typing import Final, final

from aim_domain import DEFAULT_GPU_RESOURCE, labels
from aim_local.actors.failures import Failure, WantedFailures
from aim_local.actors.kubelet import unschedulable
from aim_local.actors.objects import annotations_of, claim_group, claims_of, is_going, now_text
from aim_local.actors.programs import role_of
from aim_local.actors.runtime import Informer, Workers, Writer
from aim_local.actors.settings import ActorSettings
from aim_local.actors.volumes import SELECTED_NODE, is_bound, waits_for_consumer
from controller_runtime import JsonObject, Key, KubeError
from controller_runtime.kinds import LEASE, NODE, PERSISTENT_VOLUME_CLAIM, POD

_LEASES: Final = "kube-node-lease"
_LEASE_SECONDS: Final = 40
_RENEWED_AFTER: Final = 10.0
_NOT_READY: Final = "node.kubernetes.io/not-ready"


async def register_nodes(writer: Writer, settings: ActorSettings, kubelet_port: int) -> None:
    """Announce the nodes once; a later deletion stays."""
    for name in settings.nodes:
        node = await writer.apply(NODE, node_of(settings, name))
        written = await writer.status(NODE, node, node_status(settings, name, kubelet_port, now_text()))
        while written is not None and await _is_tainted(writer, written):
            written = await writer.get(NODE, name)


async def _is_tainted(writer: Writer, node: JsonObject) -> bool:
    """Take away the taint that the API server gives a new node until its kubelet is ready, which this one is.

    Returns whether that has to be tried again: controllers write to a new node at the same time.
    """
    taints = (node.get("spec") or {}).get("taints") or []
    left = [one for one in taints if one["key"] != _NOT_READY]
    if left == taints:
        return False
    return await writer.patch(NODE, node, {"spec": {"taints": left or None}}) is None


async def renew_leases(writer: Writer, settings: ActorSettings) -> None:
    """Tell a node lifecycle controller, where there is one, that the nodes live; until cancelled."""
    while True:
        try:
            for name in settings.nodes:
                await writer.apply(LEASE, _lease(name))
        except KubeError:
            # A server without the namespace has no such controller, and one that is away gets the next renewal.
            pass
        await asyncio.sleep(_RENEWED_AFTER)


def _lease(node: str) -> JsonObject:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": LEASE.kind,
        "metadata": {"name": node, "namespace": _LEASES},
        "spec": {"holderIdentity": node, "leaseDurationSeconds": _LEASE_SECONDS, "renewTime": now},
    }


def node_of(settings: ActorSettings, name: str) -> JsonObject:
    """The node as it registers."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                labels.GPU_DEVICE_ID: settings.gpu_device_id,
                f"{labels.GPU_DEVICE_ID}.{settings.gpu_device_id}": str(settings.gpus),
                labels.GPU_VRAM: settings.gpu_vram,
            },
        },
    }


def node_status(settings: ActorSettings, name: str, kubelet_port: int, now: str) -> JsonObject:
    """What the node offers."""
    resources = {"amd.com/gpu": str(settings.gpus), "cpu": "128", "memory": "2Ti", "pods": "10000"}
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    return {
        "capacity": resources,
        "allocatable": resources,
        "conditions": [ready],
        "addresses": [
            {"type": "InternalIP", "address": "127.0.0.1"},
            {"type": "Hostname", "address": name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
        "nodeInfo": {
            "architecture": "amd64",
            "operatingSystem": "linux",
            "osImage": "simulated",
            "kubeletVersion": "v1.34.0",
            "kubeProxyVersion": "",
            "containerRuntimeVersion": "local://1",
            "kernelVersion": "",
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
        },
    }


_ENDED: Final = frozenset({"Succeeded", "Failed"})


@final
class Scheduler:
    """Acts on each pod without a node when it, one of its claims or a failure changes."""

    def __init__(
        self,
        writer: Writer,
        settings: ActorSettings,
        failures: WantedFailures,
        *,
        pods: Informer,
        claims: Informer,
        storage_classes: Informer,
    ) -> None:
        """``pods`` are grouped with `pod_groups`."""
        self._writer = writer
        self._settings = settings
        self._failures = failures
        self._pods = pods
        self._claims = claims
        self._storage_classes = storage_classes
        self._turn = count()
        self._stuck: set[Key] = set()
        self.workers = Workers("scheduler", self._handle)
        pods.listen(self._on_pod)
        claims.listen(self._on_claim)
        failures.listen(self._look_again)

    def _look_again(self) -> None:
        for key in self._stuck:
            self.workers.add(key)

    def _on_pod(self, key: Key, pod: JsonObject) -> None:
        if not pod["spec"].get("nodeName"):
            self.workers.add(key)

    def _on_claim(self, key: Key, _: JsonObject) -> None:
        for pod in self._pods.group(claim_group(key)):
            if pod in self._stuck:
                self.workers.add(pod)

    async def _handle(self, key: Key) -> None:
        pod = self._pods.get(key)
        ended = pod is not None and (pod.get("status") or {}).get("phase") in _ENDED
        if pod is None or ended or is_going(pod) or pod["spec"].get("nodeName"):
            self._stuck.discard(key)
            return
        # Before the look, so that what changes meanwhile brings another one.
        self._stuck.add(key)
        problem = await self._problem(pod)
        if problem:
            status = unschedulable(pod, now_text(), problem)
            if status["conditions"] != (pod.get("status") or {}).get("conditions"):
                self._pods.put_if(await self._writer.status(POD, pod, status))
                await self._writer.event(POD, pod, "FailedScheduling", problem, warning=True)
            return
        self._stuck.discard(key)
        await asyncio.sleep(self._settings.delay)
        nodes = self._settings.nodes
        await self._writer.bind(pod, nodes[next(self._turn) % len(nodes)])

    async def _problem(self, pod: JsonObject) -> str:
        """Why the pod has no place; empty if it has one."""
        wanted = self._failures.of_pod(pod, role_of(pod))
        crowded = wanted is not None and wanted.failure is Failure.UNSCHEDULABLE
        if crowded or gpus_of(pod) > self._settings.gpus:
            nodes = len(self._settings.nodes)
            return _unavailable(
                nodes, f"{nodes} Insufficient {DEFAULT_GPU_RESOURCE}.", "No preemption victims found for incoming pod"
            )
        unbound = False
        for key in claims_of(pod):
            claim = self._claims.get(key)
            if claim is None:
                return self._unhelped(f'persistentvolumeclaim "{key.name}" not found.')
            if is_bound(claim):
                continue
            if not waits_for_consumer(claim, self._storage_classes):
                return self._unhelped("pod has unbound immediate PersistentVolumeClaims.")
            unbound = True
            await self._select_node(claim)
        # The real scheduler keeps such a pod to itself until the volume is there, without a word.
        return self._unhelped("pod waits for the volumes of its claims.") if unbound else ""

    async def _select_node(self, claim: JsonObject) -> None:
        if SELECTED_NODE not in annotations_of(claim):
            # That there is no volume yet is said: a claim whose spec may not change is compared member by member.
            change = {
                "metadata": {"annotations": {SELECTED_NODE: self._settings.nodes[0]}},
                "spec": {"volumeName": ""},
            }
            self._claims.put_if(await self._writer.patch(PERSISTENT_VOLUME_CLAIM, claim, change))

    def _unhelped(self, why: str) -> str:
        return _unavailable(len(self._settings.nodes), why, "Preemption is not helpful for scheduling")


def gpus_of(pod: JsonObject) -> int:
    """Accelerators that a pod's containers ask for together."""
    asked = ((one.get("resources") or {}).get("limits") or {} for one in pod["spec"]["containers"])
    return sum(int(limits.get(DEFAULT_GPU_RESOURCE, 0)) for limits in asked)


def _unavailable(nodes: int, why: str, preemption: str) -> str:
    none = f"0/{nodes} nodes are available:"
    return f"{none} {why} preemption: {none} {nodes} {preemption}."
