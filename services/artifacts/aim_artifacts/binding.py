"""The RoleBinding that lets download pods report their progress (AR-270…AR-273, AR-813)."""

from aim_artifacts.settings import STATUS_UPDATER, ArtifactsSettings
from aim_domain.parts import STATUS_UPDATER_BINDINGS
from controller_runtime import Child, JsonObject, Patch, WriteMode, kind_of, to_json
from controller_runtime.core import RoleBinding, Subject
from controller_runtime.kinds import ROLE_BINDING

_RBAC = "rbac.authorization.k8s.io"


def build_binding(namespace: str, settings: ArtifactsSettings) -> Child:
    """The binding of one namespace: shared by its artifacts, hence without owner, and never deleted."""
    body = {
        "metadata": {"name": STATUS_UPDATER, "namespace": namespace},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": settings.artifact_status_clusterrole},
        "subjects": [_downloader(namespace, settings)],
    }
    return Child(STATUS_UPDATER_BINDINGS, kind_of(body, ROLE_BINDING), owned=False, mode=WriteMode.CREATE)


def move_binding(binding: RoleBinding, settings: ArtifactsSettings) -> tuple[Patch, ...]:
    """Give the account of downloads what former releases gave to ``default``, and take it from there (AR-813).

    Subjects that somebody else has added stay. A binding of another role is somebody else's altogether.
    """
    if binding.role_ref.name != settings.artifact_status_clusterrole:
        return ()
    wanted = Subject.model_validate(_downloader(binding.namespace, settings))
    others = tuple(one for one in binding.subjects if one != wanted and not _is_default(one, binding.namespace))
    if len(others) + 1 == len(binding.subjects) and wanted in binding.subjects:
        return ()
    metadata = binding.metadata
    return (
        Patch(
            STATUS_UPDATER_BINDINGS,
            metadata.namespace,
            metadata.name,
            metadata.resource_version,
            {"subjects": [to_json(one) for one in (*others, wanted)]},
            "download pods have an account of their own",
        ),
    )


def _downloader(namespace: str, settings: ArtifactsSettings) -> JsonObject:
    return {"kind": "ServiceAccount", "name": settings.artifact_service_account, "namespace": namespace}


def _is_default(subject: Subject, namespace: str) -> bool:
    return (subject.kind, subject.name, subject.namespace) == ("ServiceAccount", "default", namespace)
