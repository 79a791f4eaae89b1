"""What the schemas of built-in kinds can't say: checks across fields, with the real server's wording."""

import re
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from aim_local.apiserver.objects.errors import FieldError, FieldErrorKind
from aim_local.apiserver.resources import ResourceType
from aim_local.apiserver.values import dig
from controller_runtime import JsonObject, quantity

_Check: TypeAlias = Callable[[JsonObject], Iterator[FieldError]]

_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_DETAIL: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_DETAIL: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


def check_builtin(resource: ResourceType, obj: JsonObject) -> list[FieldError]:
    """The errors of an object of a built-in kind beyond its schema."""
    return [error for check in _CHECKS.get(resource.qualified, ()) for error in check(obj)]


def check_builtin_update(resource: ResourceType, old: JsonObject, new: JsonObject) -> list[FieldError]:
    """The errors of a change of a built-in object beyond what never changes."""
    if resource.qualified != "persistentvolumeclaims":
        return []
    # The binder sets the first two once; a bound claim may grow.
    bound, placed = dig(old, "status.phase") == "Bound", bool(dig(old, "spec.volumeName"))
    free = (set() if placed else {"volumeName", "storageClassName"}) | ({"resources"} if bound else set())
    before, after = (
        {name: value for name, value in (obj.get("spec") or {}).items() if name not in free} for obj in (old, new)
    )
    if before == after:
        return []
    detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
    return [FieldError("spec", FieldErrorKind.FORBIDDEN, detail)]


def _containers(spec: object, path: str) -> Iterator[FieldError]:
    if not isinstance(spec, dict):
        return
    if not spec.get("containers"):
        yield FieldError(f"{path}.containers", FieldErrorKind.REQUIRED)
    for member in ("initContainers", "containers"):
        seen: set[str] = set()
        for index, container in enumerate(spec.get(member) or ()):
            place, name = f"{path}.{member}[{index}]", container.get("name", "")
            if not name:
                yield FieldError(f"{place}.name", FieldErrorKind.REQUIRED)
            elif not _DNS_LABEL.fullmatch(name):
                yield FieldError(f"{place}.name", FieldErrorKind.INVALID, _LABEL_DETAIL, name)
            elif name in seen:
                yield FieldError(f"{place}.name", FieldErrorKind.DUPLICATE, "", name)
            seen.add(name)
            if not container.get("image"):
                yield FieldError(f"{place}.image", FieldErrorKind.REQUIRED)
            yield from _resources(container.get("resources") or {}, f"{place}.resources")


def _resources(resources: JsonObject, path: str) -> Iterator[FieldError]:
    """Requests within limits; resources of devices, whose names have a domain, cannot be overcommitted at all."""
    limits = resources.get("limits") or {}
    for name, amount in (resources.get("requests") or {}).items():
        asked, allowed = quantity.parse_or_none(amount), quantity.parse_or_none(limits.get(name))
        if asked is None or allowed is None or asked == allowed:
            continue
        if "/" in name or asked > allowed:
            relation = "equal to" if "/" in name else "less than or equal to"
            detail = f"must be {relation} {name} limit of {quantity.canonical(limits[name])}"
            yield FieldError(f"{path}.requests", FieldErrorKind.INVALID, detail, quantity.canonical(amount))


def _pod(obj: JsonObject) -> Iterator[FieldError]:
    yield from _containers(obj.get("spec"), "spec")


def _template(obj: JsonObject) -> Iterator[FieldError]:
    yield from _containers(dig(obj, "spec.template.spec"), "spec.template.spec")


def _job_restarts(obj: JsonObject) -> Iterator[FieldError]:
    if dig(obj, "spec.template.spec.restartPolicy") == "Always":
        detail = 'valid values: "OnFailure", "Never"'
        yield FieldError("spec.template.spec.restartPolicy", FieldErrorKind.REQUIRED, detail)


def _selects_its_pods(obj: JsonObject) -> Iterator[FieldError]:
    labels, wanted = dig(obj, "spec.template.metadata.labels") or {}, dig(obj, "spec.selector.matchLabels") or {}
    if isinstance(labels, dict) and isinstance(wanted, dict) and not wanted.items() <= labels.items():
        detail = "`selector` does not match template `labels`"
        yield FieldError("spec.template.metadata.labels", FieldErrorKind.INVALID, detail, labels)


def _claim(obj: JsonObject) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    if not spec.get("accessModes"):
        yield FieldError("spec.accessModes", FieldErrorKind.REQUIRED, "at least 1 access mode is required")
    if not dig(obj, "spec.resources.requests.storage"):
        yield FieldError("spec.resources[storage]", FieldErrorKind.REQUIRED)


def _keys(obj: JsonObject) -> Iterator[FieldError]:
    for member in ("data", "binaryData"):
        for key in obj.get(member) or {}:
            if not _CONFIG_KEY.fullmatch(key):
                yield FieldError(f"{member}[{key}]", FieldErrorKind.INVALID, _KEY_DETAIL, key)


def _event(obj: JsonObject) -> Iterator[FieldError]:
    """An Event is in its object's namespace; one with an eventTime also says who does what, and why."""
    timed = bool(obj.get("eventTime"))
    namespace, about = obj["metadata"].get("namespace", ""), dig(obj, "involvedObject.namespace") or ""
    if (about != namespace and not timed) or not about:
        allowed = ("default", "kube-system") if timed else ("default",)
        if about or namespace not in allowed:
            detail = "does not match event.namespace"
            yield FieldError("involvedObject.namespace", FieldErrorKind.INVALID, detail, about)
    for name in ("reportingComponent", "reportingInstance", "action", "reason") if timed else ():
        if not obj.get(name):
            yield FieldError(name, FieldErrorKind.REQUIRED)


_CHECKS: Final[dict[str, tuple[_Check, ...]]] = {
    "configmaps": (_keys,),
    "secrets": (_keys,),
    "events": (_event,),
    "pods": (_pod,),
    "persistentvolumeclaims": (_claim,),
    "jobs.batch": (_template, _job_restarts),
    "deployments.apps": (_selects_its_pods, _template),
    "replicasets.apps": (_selects_its_pods, _template),
    "statefulsets.apps": (_selects_its_pods, _template),
}
