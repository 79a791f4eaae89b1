"""The built-in kinds: their schemas, and the defaults that depend on other fields."""

from base64 import b64encode
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeAlias

from controller_runtime import JsonObject
from embedded_apiserver.objects.schema import Schema, with_object_meta
from embedded_apiserver.objects.upstream import kind_schema


@cache
def schema_for(group: str, version: str, kind: str) -> Schema:
    """The schema of a built-in kind, the same one each time.

    Raises:
        KeyError: it is not among those that were taken from upstream.
    """
    openapi = with_object_meta(kind_schema(group, version, kind))
    return Schema(openapi, builtin=True, conditional=_CONDITIONAL.get((group, kind)))


_Conditional: TypeAlias = Callable[[JsonObject], None]


def _of_spec(conditional: Callable[[dict[str, Any]], None]) -> _Conditional:
    def fill_in(obj: JsonObject) -> None:
        if isinstance(obj.get("spec"), dict):
            conditional(obj["spec"])

    return fill_in


def _fold_string_data(secret: JsonObject) -> None:
    """`stringData` is a form of input only: it becomes part of the encoded data."""
    texts = secret.pop("stringData", None)
    if isinstance(texts, dict):
        encoded = {key: b64encode(str(text).encode()).decode() for key, text in texts.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def _default_pod_spec(spec: dict[str, Any]) -> None:
    for container in [*spec.get("initContainers", ()), *spec.get("containers", ())]:
        image = str(container.get("image", ""))
        tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
        latest = "@" not in image and tag in {"", "latest"}
        container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
        resources = container.get("resources") or {}
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
    if "serviceAccountName" in spec:
        spec.setdefault("serviceAccount", spec["serviceAccountName"])


def _default_template(spec: dict[str, Any]) -> None:
    template_spec = (spec.get("template") or {}).get("spec")
    if isinstance(template_spec, dict):
        _default_pod_spec(template_spec)


def _default_deployment(spec: dict[str, Any]) -> None:
    _default_template(spec)
    if spec["strategy"]["type"] == "RollingUpdate":
        limits = spec["strategy"].setdefault("rollingUpdate", {})
        spec["strategy"]["rollingUpdate"] = {"maxSurge": "25%", "maxUnavailable": "25%"} | limits


def _default_stateful_set(spec: dict[str, Any]) -> None:
    _default_template(spec)
    if spec["updateStrategy"]["type"] == "RollingUpdate":
        spec["updateStrategy"].setdefault("rollingUpdate", {}).setdefault("partition", 0)


def _default_job(spec: dict[str, Any]) -> None:
    _default_template(spec)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    if spec.get("podFailurePolicy"):
        spec["podReplacementPolicy"] = "Failed"


def _default_service(spec: dict[str, Any]) -> None:
    for port in spec.get("ports", ()):
        port.setdefault("targetPort", port["port"])
    if spec.get("type") in {"NodePort", "LoadBalancer"}:
        spec.setdefault("externalTrafficPolicy", "Cluster")


_CONDITIONAL: Final[dict[tuple[str, str], _Conditional]] = {
    ("", "Pod"): _of_spec(_default_pod_spec),
    ("", "Secret"): _fold_string_data,
    ("", "Service"): _of_spec(_default_service),
    ("apps", "Deployment"): _of_spec(_default_deployment),
    ("apps", "ReplicaSet"): _of_spec(_default_template),
    ("apps", "StatefulSet"): _of_spec(_default_stateful_set),
    ("batch", "Job"): _of_spec(_default_job),
}
