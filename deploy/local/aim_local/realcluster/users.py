"""Who talks to the API server: one token per client, so that its audit log tells who asked for what."""

import secrets
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

import yaml

from aim_domain.services import SERVICES
from controller_runtime import JsonObject

SYSTEM_NAMESPACE: Final = "aim-system"
_MASTERS: Final = "system:masters"
_RBAC: Final = "rbac.authorization.k8s.io"


class User(StrEnum):
    """A client besides the services, by its short name."""

    ADMIN = "admin"
    KUBECTL = "kubectl"
    ACTORS = "actors"
    CONTROLLER_MANAGER = "kube-controller-manager"
    SCHEDULER = "kube-scheduler"
    KSERVE = "kserve"
    KEDA = "keda"


USERS: Final[tuple[str, ...]] = (*User, *SERVICES)
"""Short names of all clients: programs of the cluster, and the services."""


def user_name(user: str) -> str:
    """What the API server calls the user.

    A service goes by the name of the service account that it has in a cluster, so that the same roles fit.
    """
    if user in SERVICES:
        return f"system:serviceaccount:{SYSTEM_NAMESPACE}:{account_name(user)}"
    return f"aim-local:{user}"


def account_name(service: str) -> str:
    """The service account that the chart makes for a service."""
    return f"aim-engine-{service}"


USERS_BY_NAME: Final[Mapping[str, str]] = {user_name(user): user for user in USERS}


def new_tokens() -> dict[str, str]:
    """A new token for each client."""
    return {user: secrets.token_urlsafe(24) for user in USERS}


def token_file(tokens: Mapping[str, str]) -> str:
    """Content for `--token-auth-file`: token, name, UID, groups."""
    return "".join(f'{token},{user_name(user)},{user},"{_groups(user)}"\n' for user, token in tokens.items())


def _groups(user: str) -> str:
    if user in SERVICES:
        return f"system:serviceaccounts,system:serviceaccounts:{SYSTEM_NAMESPACE}"
    return _MASTERS


def service_roles(table: JsonObject) -> list[JsonObject]:
    """The roles that the chart would give the services, direct watch included, bound to them.

    Args:
        table: the permissions of the chart.
    """
    return [one for name, own in table["services"].items() for one in _roles(name, own)]


def _roles(service: str, own: JsonObject) -> list[JsonObject]:
    # Not the chart's names, so that the chart can be installed beside them.
    cluster = {"name": f"aim-local-{service}"}
    system = {**cluster, "namespace": SYSTEM_NAMESPACE}
    account = {"kind": "ServiceAccount", "name": account_name(service), "namespace": SYSTEM_NAMESPACE}
    return [
        {**_rbac("ClusterRole", cluster), "rules": [*own["cluster"], *own["direct"]]},
        {**_rbac("Role", system), "rules": own["system"]},
        {**_rbac("ClusterRoleBinding", cluster), "roleRef": _role("ClusterRole", cluster), "subjects": [account]},
        {**_rbac("RoleBinding", system), "roleRef": _role("Role", system), "subjects": [account]},
    ]


def status_updater(table: JsonObject) -> JsonObject:
    """What the artifacts service binds in each namespace, for its download pods."""
    return {**_rbac("ClusterRole", {"name": "aim-engine-artifact-status-updater"}), "rules": table["downloader"]}


def _rbac(kind: str, metadata: Mapping[str, str]) -> JsonObject:
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": dict(metadata)}


def _role(kind: str, metadata: Mapping[str, str]) -> JsonObject:
    return {"apiGroup": _RBAC, "kind": kind, "name": metadata["name"]}


def kubeconfig(server: str, ca: Path, user: str, token: str) -> str:
    """A kubeconfig (YAML) for one user."""
    name = "aim-real"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority": str(ca)}}],
        "users": [{"name": str(user), "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": str(user)}}],
        "current-context": name,
    }
    return yaml.safe_dump(config, sort_keys=False)
