"""What the server itself decides about an object when it is made or changed, beyond its schema: pure functions."""

import base64
import re
import secrets
import uuid
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from controller_runtime import JsonObject, quantity
from embedded_apiserver.objects.errors import FieldError, FieldErrorKind
from embedded_apiserver.resources import ResourceType
from embedded_apiserver.values import dig, timestamp

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


_DNS_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_PART: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_PATH_LIKE: Final = frozenset({"roles", "rolebindings", "clusterroles", "clusterrolebindings"})
_STANDARD_FINALIZERS: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_SUBDOMAIN_DETAIL: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_VALUE_DETAIL: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_NAME_DETAIL: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_EXTENSIONS: Final = "apiextensions.k8s.io"
_MAX_NAME: Final = 253
_MAX_PART: Final = 63
_MAX_ANNOTATIONS: Final = 256 * 1024


def check_metadata(resource: ResourceType, obj: JsonObject) -> list[FieldError]:
    """The errors of an object's metadata."""
    metadata = obj["metadata"]
    return [
        *_check_name(resource, metadata.get("name", "")),
        *_check_labels(metadata.get("labels") or {}),
        *_check_annotations(metadata.get("annotations") or {}),
        *_check_owners(metadata.get("ownerReferences") or []),
        *_check_finalizers(resource, metadata.get("finalizers") or []),
    ]


def metadata_warnings(resource: ResourceType, obj: JsonObject) -> list[str]:
    """What the server accepts but does not recommend."""
    if not resource.custom:
        return []
    return [
        f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name to avoid accidental conflicts with '
        "other finalizer writers"
        for name in obj["metadata"].get("finalizers") or []
        if not _qualified(name)
    ]


def _qualified(finalizer: str) -> bool:
    return "/" in finalizer or finalizer in _STANDARD_FINALIZERS


def _invalid(path: str, value: object, detail: str) -> FieldError:
    return FieldError(path, FieldErrorKind.INVALID, detail, value)


def _check_name(resource: ResourceType, name: str) -> Iterator[FieldError]:
    if not name:
        yield FieldError("metadata.name", FieldErrorKind.REQUIRED, "name or generateName is required")
    elif resource.plural in _PATH_LIKE:
        return
    elif len(name) > _MAX_NAME:
        yield _invalid("metadata.name", name, "must be no more than 253 characters")
    elif not _DNS_SUBDOMAIN.fullmatch(name):
        yield _invalid("metadata.name", name, _SUBDOMAIN_DETAIL)


def _check_labels(labels: JsonObject) -> Iterator[FieldError]:
    for key, value in labels.items():
        yield from (_invalid("metadata.labels", key, detail) for detail in qualified_name_faults(key))
        if not isinstance(value, str) or not _LABEL_VALUE.fullmatch(value):
            yield _invalid("metadata.labels", value, _VALUE_DETAIL)
        elif len(value) > _MAX_PART:
            yield _invalid("metadata.labels", value, "must be no more than 63 characters")


def _check_annotations(annotations: JsonObject) -> Iterator[FieldError]:
    for key in annotations:
        yield from (_invalid("metadata.annotations", key, detail) for detail in qualified_name_faults(key.lower()))
    size = sum(len(key.encode()) + len(str(value).encode()) for key, value in annotations.items())
    if size > _MAX_ANNOTATIONS:
        yield FieldError(
            "metadata.annotations", FieldErrorKind.TOO_LONG, f"may not be more than {_MAX_ANNOTATIONS} bytes"
        )


def _check_owners(owners: list[JsonObject]) -> Iterator[FieldError]:
    for owner in owners:
        for member in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(member):
                detail = "version must not be empty" if member == "apiVersion" else "must not be empty"
                yield _invalid(f"metadata.ownerReferences.{member}", "", detail)
    controllers = [owner for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        first, second = (f"{owner['kind']}/{owner['name']}" for owner in controllers[:2])
        detail = (
            f'Only one reference can have Controller set to true. Found "true" in references for {first} and {second}'
        )
        yield _invalid("metadata.ownerReferences", owners, detail)


def _check_finalizers(resource: ResourceType, finalizers: list[str]) -> Iterator[FieldError]:
    core = not resource.custom and resource.group != _EXTENSIONS
    for index, name in enumerate(finalizers):
        path = f"metadata.finalizers[{index}]" if core else "metadata.finalizers"
        yield from (_invalid(path, name, detail) for detail in qualified_name_faults(name))
        if core and not _qualified(name):
            yield _invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified")


def qualified_name_faults(name: str) -> Iterator[str]:
    """What is wrong with `name` or `prefix/name`."""
    prefix, separator, part = name.rpartition("/")
    if "/" in prefix:
        optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        yield f"a qualified name {_NAME_DETAIL} {optional}"
        return
    if separator and not prefix:
        yield "prefix part must be non-empty"
    elif prefix and not _DNS_SUBDOMAIN.fullmatch(prefix):
        yield f"prefix part {_SUBDOMAIN_DETAIL}"
    if not part:
        yield "name part must be non-empty"
    elif len(part) > _MAX_PART:
        yield "name part must be no more than 63 characters"
    if not _NAME_PART.fullmatch(part):
        yield f"name part {_NAME_DETAIL}"


_SUFFIX: Final = "bcdfghjklmnpqrstvwxz2456789"
_SYSTEM_METADATA: Final = (
    "uid", "creationTimestamp", "generation", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds",
    "resourceVersion",
)  # fmt: skip


def generated_name(prefix: str) -> str:
    """A name from a generateName prefix, which is cut to leave room for the suffix."""
    return prefix[:58] + "".join(secrets.choice(_SUFFIX) for _ in range(5))


def begin(resource: ResourceType, obj: JsonObject, now: float) -> None:
    """Give a new object its system metadata and take away what a creator may not set; in place."""
    metadata = obj["metadata"]
    for name in _SYSTEM_METADATA:
        metadata.pop(name, None)
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = timestamp(now)
    if resource.tracks_generation:
        metadata["generation"] = 1
    if resource.has_status:
        obj.pop("status", None)
    initial = _ON_CREATE.get(resource.qualified)
    if initial is not None:
        initial(obj)


def drop_empty(metadata: JsonObject) -> None:
    """Leave out what is empty in the metadata, as every kind does; in place."""
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        if name in metadata and not metadata[name]:
            del metadata[name]


def carry_over(resource: ResourceType, old: JsonObject, new: JsonObject) -> None:
    """Keep in an update what only the server changes: identity, deletion marks, status and generation; in place."""
    before, after = old["metadata"], new["metadata"]
    for name in _SYSTEM_METADATA:
        after.pop(name, None)
        if name in before:
            after[name] = before[name]
    if resource.has_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    on_update = _ON_UPDATE.get(resource.qualified)
    if on_update is not None:
        on_update(old, new)
    if resource.tracks_generation and _desired(resource, old) != _desired(resource, new):
        after["generation"] = before.get("generation", 0) + 1


def with_status_only(resource: ResourceType, old: JsonObject, new: JsonObject) -> JsonObject:
    """The old object with the status of the new one; managed fields are taken over for the field manager to judge."""
    result = {key: value for key, value in old.items() if key != "status"}
    if "status" in new:
        result["status"] = new["status"]
    result["metadata"] = dict(old["metadata"])
    if resource.qualified == "nodes" and "labels" in new["metadata"]:
        result["metadata"]["labels"] = new["metadata"]["labels"]
    return result


def _desired(resource: ResourceType, obj: JsonObject) -> JsonObject:
    dropped = {"metadata", "apiVersion", "kind"} | ({"status"} if resource.has_status else set())
    return {key: value for key, value in obj.items() if key not in dropped}


def check_update(resource: ResourceType, old: JsonObject, new: JsonObject) -> list[FieldError]:
    """The errors of a change: what may not change once it is set, and finalizers that come too late."""
    errors = []
    if old["metadata"].get("deletionTimestamp"):
        before = set(old["metadata"].get("finalizers") or [])
        added = [f for f in new["metadata"].get("finalizers") or [] if f not in before]
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            detail = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            errors.append(FieldError("metadata.finalizers", FieldErrorKind.FORBIDDEN, detail, None))
    return errors + [
        FieldError(path, FieldErrorKind.INVALID, "field is immutable", dig(new, path))
        for path in _IMMUTABLE.get(resource.qualified, ())
        if dig(old, path) is not None and dig(old, path) != dig(new, path)
    ]


_IMMUTABLE: Final = {
    "pods": ("spec.nodeName",),
    "jobs.batch": ("spec.template", "spec.selector", "spec.completions", "spec.completionMode"),
    "deployments.apps": ("spec.selector",),
    "replicasets.apps": ("spec.selector",),
    "rolebindings.rbac.authorization.k8s.io": ("roleRef",),
    "clusterrolebindings.rbac.authorization.k8s.io": ("roleRef",),
    "secrets": ("type",),
    "storageclasses.storage.k8s.io": ("provisioner", "parameters"),
    "priorityclasses.scheduling.k8s.io": ("value",),
    "customresourcedefinitions.apiextensions.k8s.io": (
        "spec.group",
        "spec.scope",
        "spec.names.plural",
        "spec.names.kind",
    ),
}


def _encode_secret(obj: JsonObject) -> None:
    plain = obj.pop("stringData", None)
    if plain:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        obj["data"] = (obj.get("data") or {}) | encoded
    obj.setdefault("type", "Opaque")


def _new_namespace(obj: JsonObject) -> None:
    obj["spec"] = {"finalizers": ["kubernetes"]}
    obj["status"] = {"phase": "Active"}
    labels = obj["metadata"].get("labels") or {}
    obj["metadata"]["labels"] = labels | {"kubernetes.io/metadata.name": obj["metadata"]["name"]}


def _new_job(obj: JsonObject) -> None:
    spec = obj.setdefault("spec", {})
    uid, name = obj["metadata"]["uid"], obj["metadata"].get("name", "")
    if not spec.get("manualSelector"):
        identity = {"batch.kubernetes.io/controller-uid": uid, "controller-uid": uid}
        named = {"batch.kubernetes.io/job-name": name, "job-name": name}
        spec["manualSelector"] = False
        metadata = spec.setdefault("template", {}).setdefault("metadata", {})
        metadata["labels"] = (metadata.get("labels") or {}) | identity | named
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    if not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(spec.get("template", {}).get("metadata", {}).get("labels") or {})
    obj["status"] = {}


_NOT_READY: Final = tuple(
    {"effect": "NoExecute", "key": f"node.kubernetes.io/{what}", "operator": "Exists", "tolerationSeconds": 300}
    for what in ("not-ready", "unreachable")
)


def _new_pod(obj: JsonObject) -> None:
    spec = obj.setdefault("spec", {})
    obj["status"] = {"phase": "Pending", "qosClass": _quality(spec)}
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec.setdefault("priority", 0)
    present = spec.get("tolerations") or []
    keys = {toleration.get("key") for toleration in present}
    spec["tolerations"] = [*present, *(dict(one) for one in _NOT_READY if one["key"] not in keys)]


def _quality(spec: JsonObject) -> str:
    """The quality of service class: what the containers reserve of processor time and memory."""
    resources = [container.get("resources") or {} for container in spec.get("containers") or ()]
    named = [
        {name: (one.get(kind) or {}).get(name) for name in ("cpu", "memory")}
        for one in resources
        for kind in ("limits", "requests")
    ]
    if not any(value for amounts in named for value in amounts.values()):
        return "BestEffort"
    equal = all(named[index] == named[index + 1] for index in range(0, len(named), 2))
    return "Guaranteed" if equal and all(all(amounts.values()) for amounts in named) else "Burstable"


def _new_service(obj: JsonObject) -> None:
    spec = obj.setdefault("spec", {})
    obj["status"] = {"loadBalancer": {}}
    if spec.get("type") == "ExternalName":
        return
    address = spec.setdefault("clusterIP", _cluster_address(obj["metadata"]["uid"]))
    spec.setdefault("clusterIPs", [address])
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def _cluster_address(uid: str) -> str:
    """An address of 10.0.0.0/16 for show: nothing listens there."""
    number = uuid.UUID(uid).int
    return f"10.0.{number % 251 + 1}.{number // 251 % 251 + 1}"


def _new_binding(obj: JsonObject) -> None:
    if isinstance(obj.get("roleRef"), dict):
        obj["roleRef"].setdefault("apiGroup", "rbac.authorization.k8s.io")


def _pending(obj: JsonObject) -> None:
    obj["status"] = {"phase": "Pending"}


def _keep_namespace_spec(old: JsonObject, new: JsonObject) -> None:
    new["spec"] = old["spec"]


_ON_CREATE: Final[dict[str, Callable[[JsonObject], None]]] = {
    "secrets": _encode_secret,
    "namespaces": _new_namespace,
    "jobs.batch": _new_job,
    "pods": _new_pod,
    "services": _new_service,
    "rolebindings.rbac.authorization.k8s.io": _new_binding,
    "clusterrolebindings.rbac.authorization.k8s.io": _new_binding,
    "persistentvolumeclaims": _pending,
    "persistentvolumes": _pending,
}

_ON_UPDATE: Final[dict[str, Callable[[JsonObject, JsonObject], None]]] = {
    "secrets": lambda _old, new: _encode_secret(new),
    "namespaces": _keep_namespace_spec,
}
