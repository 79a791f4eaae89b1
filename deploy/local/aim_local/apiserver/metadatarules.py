"""What names, labels, annotations, finalizers and owner references may be: pure functions with the real wording."""

import re
from collections.abc import Iterator
from typing import Final

from aim_local.apiserver.objects.errors import FieldError, FieldErrorKind
from aim_local.apiserver.resources import ResourceType
from controller_runtime import JsonObject

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
