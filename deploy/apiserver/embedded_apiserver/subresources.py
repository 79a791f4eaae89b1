"""Subresources `scale`, `binding` and pod logs, and the review kinds, which are answered but never stored."""

import base64
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

import aiohttp
from starlette.responses import Response, StreamingResponse

from controller_runtime import JsonObject
from embedded_apiserver import status
from embedded_apiserver.objects.errors import FieldError, FieldErrorKind
from embedded_apiserver.resources import ResourceType, ScalePaths
from embedded_apiserver.store import Store, Version
from embedded_apiserver.values import dig, timestamp

_MOST_REPLICAS: Final = 2**31 - 1


def scale_of(resource: ResourceType, version: Version) -> JsonObject:
    """The autoscaling/v1 Scale of an object."""
    assert resource.scale is not None
    obj, paths = version.obj, resource.scale
    metadata = {
        key: obj["metadata"][key]
        for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if key in obj["metadata"]
    }
    scaled: JsonObject = {"replicas": _at(obj, paths.status_replicas) or 0}
    selector = _selector_text(obj, paths)
    if selector:
        scaled["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": _at(obj, paths.spec_replicas) or 0},
        "status": scaled,
    }


def with_replicas(resource: ResourceType, obj: JsonObject, scale: JsonObject) -> JsonObject:
    """The object (changed in place) with the replicas of a Scale.

    Raises:
        ApiError: 422 for a negative or missing number.
    """
    assert resource.scale is not None
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        path, detail = ".spec.replicas", "should be a non-negative integer"
        if not resource.custom:
            path, detail = "spec.replicas", "must be greater than or equal to 0"
        error = FieldError(path, FieldErrorKind.INVALID, detail, replicas)
        raise status.invalid(resource, obj["metadata"]["name"], [error])
    parent = obj
    for step in resource.scale.spec_replicas[:-1]:
        parent = parent.setdefault(step, {})
    parent[resource.scale.spec_replicas[-1]] = replicas
    revision = (scale.get("metadata") or {}).get("resourceVersion")
    if revision:
        obj["metadata"]["resourceVersion"] = revision
    return obj


def scale_errors(resource: ResourceType, obj: JsonObject) -> list[FieldError]:
    """What a Scale could not carry: a custom resource's integers have 64 bits, a Scale's 32."""
    if not resource.custom or resource.scale is None:
        return []
    replicas = _at(obj, resource.scale.spec_replicas)
    if not isinstance(replicas, int) or replicas <= _MOST_REPLICAS:
        return []
    path = "." + ".".join(resource.scale.spec_replicas)
    return [FieldError(path, FieldErrorKind.INVALID, f"should be less than or equal to {_MOST_REPLICAS}", replicas)]


def _at(obj: object, path: tuple[str, ...]) -> object:
    for step in path:
        obj = obj.get(step) if isinstance(obj, dict) else None
    return obj


def _selector_text(obj: JsonObject, paths: ScalePaths) -> str:
    selector = _at(obj, paths.selector) if paths.selector else None
    if isinstance(selector, dict):
        return ",".join(f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items())
    return selector if isinstance(selector, str) else ""


def bound_pod(resource: ResourceType, live: Version, binding: JsonObject, now: float) -> JsonObject:
    """The pod after a scheduler's Binding.

    Raises:
        ApiError: 409 for a pod that has a node or is being deleted, 400 or 500 for a binding that lacks something.
    """
    name, node = live.key[1], (binding.get("target") or {}).get("name")
    if (binding.get("metadata") or {}).get("name") != name:
        raise status.bad_request("name in URL does not match name in Binding object")
    if not node:
        raise status.internal("target.name: Required value")
    taken = live.obj["spec"].get("nodeName")
    why = ""
    if live.obj["metadata"].get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif taken:
        why = f'pod {name} is already assigned to node "{taken}"'
    if why:
        raise status.conflict(replace(resource, plural="pods/binding"), name, why)
    pod = live.copy()
    pod["spec"]["nodeName"] = node
    others = [c for c in pod["status"].get("conditions", []) if c.get("type") != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": timestamp(now)}
    pod["status"]["conditions"] = [*others, scheduled]
    return pod


_PASSED_ON: Final = ("follow", "previous", "sinceSeconds", "sinceTime", "timestamps", "tailLines", "limitBytes")


class PodLogs:
    """The `log` subresource; use as a context to hold the HTTP session."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._session: aiohttp.ClientSession | None = None

    async def fetch(self, resource: ResourceType, pod: JsonObject, query: Mapping[str, str]) -> Response:
        """The log of a container as a streamed plain text response.

        Raises:
            ApiError: no such container, not scheduled yet, or the kubelet refuses or can't be reached.
        """
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        container = _container(pod, query.get("container", ""))
        _check(name, query)
        host = dig(pod, "spec.nodeName")
        if not host:
            return Response(status_code=204)
        url = f"{self._kubelet(resource, str(host))}/containerLogs/{namespace}/{name}/{container}"
        passed = {key: query[key] for key in _PASSED_ON if key in query}
        try:
            reply = await self._client().get(url, params=passed)
        except aiohttp.ClientError as error:
            raise status.internal(f'Get "{url}": {error}') from error
        if reply.status != 200:
            text = (await reply.text()).strip()
            reply.release()
            if reply.status == 404:
                raise status.ApiError(
                    404, status.Reason.NOT_FOUND, text or f"the log of {resource.plural}/{name} was not found"
                )
            raise status.bad_request(text or f'container "{container}" in pod "{name}" is not available')
        return StreamingResponse(_chunks(reply), headers={"content-type": "text/plain"})

    async def close(self) -> None:
        """Close the session to the kubelets."""
        if self._session is not None:
            await self._session.close()

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Kubelets serve self-signed certificates; the real server does not verify them by default either.
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
            connector = aiohttp.TCPConnector(ssl=context, limit=0)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False)
        return self._session

    def _kubelet(self, resource: ResourceType, node_name: str) -> str:
        node = self._store.get("nodes", ("", node_name))
        if node is None:
            # The real server, too, calls the pod what is its node's name.
            raise status.not_found(resource, node_name)
        port = dig(node.obj, "status.daemonEndpoints.kubeletEndpoint.Port") or 10250
        addresses = dig(node.obj, "status.addresses")
        for address in addresses if isinstance(addresses, list) else []:
            if address.get("type") == "InternalIP":
                return f"https://{address['address']}:{port}"
        raise status.internal(f"no preferred addresses found for node {node_name}; known addresses: {addresses or []}")


def _check(name: str, query: Mapping[str, str]) -> None:
    for option in ("tailLines", "limitBytes", "sinceSeconds"):
        text = query.get(option, "")
        if not text:
            continue
        if not text.lstrip("-").isdigit():
            raise status.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
        least = 0 if option == "tailLines" else 1
        if int(text) < least:
            detail = "must be greater than 0" if least else "must be greater than or equal to 0"
            error = FieldError(option, FieldErrorKind.INVALID, detail, int(text))
            raise status.invalid_kind("PodLogOptions", name, error)


def _container(pod: JsonObject, asked: str) -> str:
    spec, name = pod.get("spec", {}), pod["metadata"]["name"]
    containers = [c["name"] for c in spec.get("containers", [])]
    inits = [c["name"] for c in spec.get("initContainers", [])]
    if not asked:
        if len(containers) == 1:
            return str(containers[0])
        choice = " ".join(inits + containers)
        raise status.bad_request(f"a container name must be specified for pod {name}, choose one of: [{choice}]")
    if asked not in containers + inits:
        raise status.bad_request(f"container {asked} is not valid for pod {name}")
    return asked


async def _chunks(reply: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """As the real server does, it ends as if all had been said where the kubelet is lost."""
    try:
        async for chunk in reply.content.iter_any():
            yield chunk
    except aiohttp.ClientError:
        return
    finally:
        reply.close()


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
