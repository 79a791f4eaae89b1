"""The nodes: labels of the GPU labeller (DI-174…DI-186), their devices, where their kubelet listens, their Leases."""

import asyncio
from datetime import UTC, datetime
from typing import Final

from aim_domain import labels
from aim_local.actors.objects import now_text
from aim_local.actors.settings import ActorSettings
from aim_local.actors.writer import Writer
from controller_runtime import JsonObject, KubeError
from controller_runtime.kinds import LEASE, NODE

_LEASES: Final = "kube-node-lease"
_LEASE_SECONDS: Final = 40
_RENEWED_AFTER: Final = 10.0
_NOT_READY: Final = "node.kubernetes.io/not-ready"


async def register_nodes(writer: Writer, settings: ActorSettings, kubelet_port: int) -> None:
    """Announce the nodes once; whoever deletes one later means it."""
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
