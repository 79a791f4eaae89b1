"""Who talks to the API server: one token per client, so that its audit log tells who asked for what."""

import secrets
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

import yaml

from controller_runtime import JsonObject

SYSTEM_NAMESPACE: Final = "aim-system"
_MASTERS: Final = "system:masters"
SERVICES_ROLE: Final = "cluster-admin"


class User(StrEnum):
    """A client, by its short name."""

    ADMIN = "admin"
    KUBECTL = "kubectl"
    ACTORS = "actors"
    CONTROLLER_MANAGER = "kube-controller-manager"
    SCHEDULER = "kube-scheduler"
    KSERVE = "kserve"
    KEDA = "keda"
    MODEL_SYNC = "model-sync"
    DISCOVERY = "discovery"
    ARTIFACTS = "artifacts"
    SERVING = "serving"
    ROUTING = "routing"


SERVICE_USERS: Final = (User.MODEL_SYNC, User.DISCOVERY, User.ARTIFACTS, User.SERVING, User.ROUTING)


def user_name(user: User) -> str:
    """What the API server calls the user.

    A service goes by the name of the service account that it has in a cluster, so that the same roles fit.
    """
    return f"system:serviceaccount:{SYSTEM_NAMESPACE}:aim-{user}" if user in SERVICE_USERS else f"aim-local:{user}"


USERS_BY_NAME: Final[Mapping[str, User]] = {user_name(user): user for user in User}


def new_tokens() -> dict[User, str]:
    """A fresh token for everybody."""
    return {user: secrets.token_urlsafe(24) for user in User}


def token_file(tokens: Mapping[User, str]) -> str:
    """Content for `--token-auth-file`: token, name, UID, groups."""
    return "".join(f'{token},{user_name(user)},{user},"{_groups(user)}"\n' for user, token in tokens.items())


def _groups(user: User) -> str:
    if user in SERVICE_USERS:
        return f"system:serviceaccounts,system:serviceaccounts:{SYSTEM_NAMESPACE}"
    return _MASTERS


def services_binding() -> JsonObject:
    """What lets the services do everything."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "aim-local-services"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": SERVICES_ROLE},
        "subjects": [
            {"kind": "ServiceAccount", "name": f"aim-{user}", "namespace": SYSTEM_NAMESPACE} for user in SERVICE_USERS
        ],
    }


def kubeconfig(server: str, ca: Path, user: User, token: str) -> str:
    """A kubeconfig (YAML) for one user."""
    name = "aim-real"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority": str(ca)}}],
        "users": [{"name": user.value, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user.value}}],
        "current-context": name,
    }
    return yaml.safe_dump(config, sort_keys=False)
