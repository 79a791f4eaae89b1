"""The RoleBinding that lets download pods report their progress (AR-270…AR-273)."""

from aim_artifacts.settings import STATUS_UPDATER, ArtifactsSettings
from aim_domain.parts import STATUS_UPDATER_BINDINGS
from controller_runtime import Child, WriteMode, kind_of
from controller_runtime.kinds import ROLE_BINDING

_RBAC = "rbac.authorization.k8s.io"


def build_binding(namespace: str, settings: ArtifactsSettings) -> Child:
    """The binding of one namespace: shared by its artifacts, hence without owner, and never deleted."""
    body = {
        "metadata": {"name": STATUS_UPDATER, "namespace": namespace},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": settings.artifact_status_clusterrole},
        "subjects": [{"kind": "ServiceAccount", "name": settings.artifact_service_account, "namespace": namespace}],
    }
    return Child(STATUS_UPDATER_BINDINGS, kind_of(body, ROLE_BINDING), owned=False, mode=WriteMode.CREATE)
