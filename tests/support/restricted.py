"""Namespaces that take restricted pods alone, and what a pod needs there (Pod Security Standards)."""

from typing import Final

from controller_runtime import JsonObject

RESTRICTED: Final = {"pod-security.kubernetes.io/enforce": "restricted"}
"""Labels of the namespace."""
CONTAINER_SECURITY: Final[JsonObject] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
POD_SECURITY: Final[JsonObject] = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}
