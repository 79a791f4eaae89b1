"""Kinds that are only written while a cluster is set up."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class SetupKind:
    """Coordinates of a cluster-scoped kind, as the client needs them."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = False


CUSTOM_RESOURCE_DEFINITION: Final = SetupKind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"
)
CLUSTER_ROLE_BINDING: Final = SetupKind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings")
WEBHOOKS: Final = {
    kind: SetupKind("admissionregistration.k8s.io", "v1", kind, f"{kind.lower()}s")
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}
"""By kind."""
