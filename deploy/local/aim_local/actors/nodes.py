"""The one node: labels of the GPU labeller (DI-174…DI-186), its devices, and where its kubelet listens."""

from aim_local.actors.objects import now_text
from aim_local.actors.settings import ActorSettings
from aim_local.actors.writer import Writer
from aim_shared.api import labels
from aim_shared.api.kinds import NODE
from aim_shared.json import JsonObject


async def register_node(writer: Writer, settings: ActorSettings, kubelet_port: int) -> None:
    """Announce the node once; whoever deletes it later means it."""
    node = await writer.apply(NODE, node_of(settings))
    await writer.status(NODE, node, node_status(settings, kubelet_port, now_text()))


def node_of(settings: ActorSettings) -> JsonObject:
    """The node as it registers."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": settings.node,
            "labels": {
                "kubernetes.io/hostname": settings.node,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                labels.GPU_DEVICE_ID: settings.gpu_device_id,
                f"{labels.GPU_DEVICE_ID}.{settings.gpu_device_id}": str(settings.gpus),
                labels.GPU_VRAM: settings.gpu_vram,
            },
        },
    }


def node_status(settings: ActorSettings, kubelet_port: int, now: str) -> JsonObject:
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
            {"type": "Hostname", "address": settings.node},
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
