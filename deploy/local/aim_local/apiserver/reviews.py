"""The review kinds, which are answered but never stored.

Clients have no identity here, and may do everything. ServiceAccounts have one, for those who ask about them: the tokens
of Secrets of type ``kubernetes.io/service-account-token`` authenticate, and what their users may do with URLs that are
no resources follows from ClusterRoles.
"""

import base64
from collections.abc import Callable, Iterable
from typing import Final

from aim_local.apiserver.resources import ResourceType
from controller_runtime import JsonObject

Listed = Callable[[str, str], Iterable[JsonObject]]
"""The objects of a group and plural."""

_ADMIN: Final = {"username": "admin", "groups": ["system:masters", "system:authenticated"]}
_MASTERS: Final = "system:masters"
_RBAC: Final = "rbac.authorization.k8s.io"
_TOKENS: Final = "kubernetes.io/service-account-token"
_ACCOUNT: Final = "kubernetes.io/service-account.name"
_EVERYTHING: Final[JsonObject] = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


def review(resource: ResourceType, obj: JsonObject, listed: Listed) -> JsonObject:
    """A review with its answer."""
    spec = obj.get("spec") or {}
    answered = {"apiVersion": resource.api_version, "kind": resource.kind} | obj
    return answered | {"status": _status(resource.kind, spec, listed)}


def _status(kind: str, spec: JsonObject, listed: Listed) -> JsonObject:
    if kind == "TokenReview":
        return _authenticated(str(spec.get("token", "")), listed)
    if kind == "SubjectAccessReview":
        return {"allowed": _allowed(spec, listed)}
    if kind == "SelfSubjectReview":
        return {"userInfo": _ADMIN}
    return _EVERYTHING if kind == "SelfSubjectRulesReview" else {"allowed": True}


def _authenticated(token: str, listed: Listed) -> JsonObject:
    encoded = base64.b64encode(token.encode()).decode()
    for secret in listed("", "secrets"):
        if token and secret.get("type") == _TOKENS and (secret.get("data") or {}).get("token") == encoded:
            namespace = secret["metadata"]["namespace"]
            name = secret["metadata"]["annotations"][_ACCOUNT]
            groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
            user = {"username": f"system:serviceaccount:{namespace}:{name}", "groups": groups}
            return {"authenticated": True, "user": user}
    return {"authenticated": False, "error": "invalid bearer token"}


def _allowed(spec: JsonObject, listed: Listed) -> bool:
    wanted = spec.get("nonResourceAttributes")
    if wanted is None or _MASTERS in (spec.get("groups") or ()):
        return True
    roles = {
        binding["roleRef"]["name"]
        for binding in listed(_RBAC, "clusterrolebindings")
        if any(_is_meant(subject, spec) for subject in binding.get("subjects") or ())
    }
    return any(
        _covers(rule, wanted)
        for role in listed(_RBAC, "clusterroles")
        if role["metadata"]["name"] in roles
        for rule in role.get("rules") or ()
    )


def _is_meant(subject: JsonObject, spec: JsonObject) -> bool:
    if subject["kind"] == "ServiceAccount":
        return bool(spec.get("user") == f"system:serviceaccount:{subject.get('namespace')}:{subject['name']}")
    if subject["kind"] == "Group":
        return subject["name"] in (spec.get("groups") or ())
    return bool(subject["name"] == spec.get("user"))


def _covers(rule: JsonObject, wanted: JsonObject) -> bool:
    path, verbs = str(wanted.get("path", "")), rule.get("verbs") or ()
    urls = rule.get("nonResourceURLs") or ()
    return ("*" in verbs or wanted.get("verb") in verbs) and any(
        path == url or (url.endswith("*") and path.startswith(url[:-1])) for url in urls
    )
