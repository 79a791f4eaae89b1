"""What the pods of a namespace that enforces the Pod Security standard ``restricted`` have to say (SV-301)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from aim_domain import labels
from controller_runtime import JsonObject
from controller_runtime.core import Namespace

_RESTRICTED: Final = "restricted"
_USER: Final = 65532
"""That of the discovery Job, which runs the same image (DI-252)."""

OF_POD: Final[Mapping[str, JsonObject]] = MappingProxyType(
    {"securityContext": {"runAsNonRoot": True, "runAsUser": _USER, "seccompProfile": {"type": "RuntimeDefault"}}}
)
OF_CONTAINER: Final[Mapping[str, JsonObject]] = MappingProxyType(
    {"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
)


def is_restricted(namespace: Namespace | None) -> bool:
    """Whether pods that do not say so are refused."""
    return namespace is not None and namespace.metadata.labels.get(labels.POD_SECURITY) == _RESTRICTED
