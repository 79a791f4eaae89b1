"""What KServe's controller finds in the cluster: its namespace and settings, and the registration of its webhooks."""

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from aim_local.ports import HOST
from controller_runtime import JsonObject, loads

CHANGED: Final[Mapping[str, JsonObject]] = {
    "deploy": {"defaultDeploymentMode": "Standard"},
    "ingress": {"enableGatewayApi": False, "disableIstioVirtualHost": True, "disableIngressCreation": True},
    "localModel": {"enabled": False},
    # KServe would give its own CPU and memory to containers that name none.
    "inferenceService": {"resource": {"cpuLimit": "", "memoryLimit": "", "cpuRequest": "", "memoryRequest": ""}},
}
"""What differs from the settings that KServe ships, by key (FW-327)."""

_EXAMPLE: Final = "_example"


def settings(shipped: JsonObject, namespace: str) -> JsonObject:
    """KServe's ConfigMap as it has to be for the platform, made from the one that it ships."""
    data: dict[str, str] = {key: text for key, text in shipped["data"].items() if key != _EXAMPLE}
    for key, changes in CHANGED.items():
        data[key] = json.dumps({**loads(data[key]), **changes})
    metadata = {"name": shipped["metadata"]["name"], "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def webhooks(shipped: Iterable[JsonObject], client: Callable[[str], JsonObject], authority: bytes) -> list[JsonObject]:
    """The webhook configurations that KServe ships, pointed at where its controller runs.

    Args:
        client: what a `clientConfig` says for a path, beside the authority.
        authority: signs the certificate of the webhooks, as PEM.
    """
    bundle = base64.b64encode(authority).decode()
    return [
        {
            "apiVersion": one["apiVersion"],
            "kind": one["kind"],
            "metadata": {"name": one["metadata"]["name"]},
            "webhooks": [
                {**hook, "clientConfig": {**client(hook["clientConfig"]["service"]["path"]), "caBundle": bundle}}
                for hook in one["webhooks"]
            ],
        }
        for one in shipped
    ]


def at_loopback(port: int) -> Callable[[str], JsonObject]:
    """For `webhooks`: a port of the loopback."""
    return lambda path: {"url": f"https://{HOST}:{port}{path}"}
