"""Kinds that are only written while a cluster is set up."""

from typing import Final

from aim_local.plain_kind import PlainKind

CUSTOM_RESOURCE_DEFINITION: Final = PlainKind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False
)
ROLES: Final = {
    kind: PlainKind("rbac.authorization.k8s.io", "v1", kind, f"{kind.lower()}s", not kind.startswith("Cluster"))
    for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
}
"""By kind."""
WEBHOOKS: Final = {
    kind: PlainKind("admissionregistration.k8s.io", "v1", kind, f"{kind.lower()}s", False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}
"""By kind."""
