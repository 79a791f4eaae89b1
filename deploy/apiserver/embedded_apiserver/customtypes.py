"""CustomResourceDefinitions: their checks, defaults and conditions, and the resource types they bring."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from urllib.parse import urlsplit

from controller_runtime import JsonObject, canonical, loads
from embedded_apiserver.objects.cel import CelRules
from embedded_apiserver.objects.errors import FieldError, FieldErrorKind
from embedded_apiserver.objects.schema import Schema
from embedded_apiserver.resources import ResourceType, ScalePaths
from embedded_apiserver.tables import printer_columns
from embedded_apiserver.values import timestamp

CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
_APPROVAL = "api-approved.kubernetes.io"
STORAGE = "customresourcedefinitions.apiextensions.k8s.io"


@lru_cache(maxsize=256)
def _compiled(openapi: bytes) -> tuple[Schema, CelRules]:
    """Compiled once per process: a definition is checked, then served, and a test makes the same one again."""
    decoded = loads(openapi)
    return Schema.compile(decoded), CelRules.compile(decoded)


def complete(crd: JsonObject) -> None:
    """Default a definition in place as the real server does (singular, listKind, conversion, scope)."""
    spec = crd["spec"]
    names = spec.setdefault("names", {})
    names.setdefault("singular", str(names.get("kind", "")).lower())
    names.setdefault("listKind", f"{names.get('kind', '')}List")
    spec.setdefault("conversion", {"strategy": "None"})


def check(crd: JsonObject) -> list[FieldError]:
    """The errors of a definition; an empty list if it can be served."""
    spec, names = crd.get("spec", {}), crd.get("spec", {}).get("names", {})
    errors = [
        FieldError(f"spec.{path}", FieldErrorKind.REQUIRED, "", None)
        for path, value in (
            ("group", spec.get("group")),
            ("names.plural", names.get("plural")),
            ("names.kind", names.get("kind")),
            ("scope", spec.get("scope")),
            ("versions", spec.get("versions")),
        )
        if not value
    ]
    if errors:
        return errors
    expected = f"{names['plural']}.{spec['group']}"
    if crd["metadata"].get("name") != expected:
        detail = 'must be spec.names.plural+"."+spec.group'
        errors.append(FieldError("metadata.name", FieldErrorKind.INVALID, detail, crd["metadata"].get("name")))
    if sum(1 for version in spec["versions"] if version.get("storage")) != 1:
        detail = "must have exactly one version marked as storage version"
        errors.append(FieldError("spec.versions", FieldErrorKind.INVALID, detail, spec["versions"]))
    errors.extend(_check_approval(spec["group"], crd["metadata"].get("annotations") or {}))
    for index, version in enumerate(spec["versions"]):
        errors.extend(_check_version(f"spec.versions[{index}]", version))
    return errors


def _check_approval(group: str, annotations: JsonObject) -> Iterator[FieldError]:
    """Groups of the Kubernetes community are protected: their definitions say who approved them."""
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return
    path, approval = f"metadata.annotations[{_APPROVAL}]", annotations.get(_APPROVAL, "")
    see = "see https://github.com/kubernetes/enhancements/pull/1111"
    if not approval:
        detail = f'protected groups must have approval annotation "{_APPROVAL}", {see}'
        yield FieldError(path, FieldErrorKind.REQUIRED, detail)
    elif not approval.startswith("unapproved") and not urlsplit(approval).netloc:
        detail = (
            f'protected groups must have approval annotation "{_APPROVAL}" with either a URL or a reason starting with '
            f'"unapproved", {see}'
        )
        yield FieldError(path, FieldErrorKind.INVALID, detail, approval)


def _check_version(path: str, version: JsonObject) -> Iterator[FieldError]:
    openapi = version.get("schema", {}).get("openAPIV3Schema")
    if not openapi:
        yield FieldError(f"{path}.schema.openAPIV3Schema", FieldErrorKind.REQUIRED, "schemas are required", None)
        return
    try:
        _compiled(canonical(openapi))
        printer_columns(version.get("additionalPrinterColumns", []))
    except ValueError as error:
        yield FieldError(f"{path}.schema.openAPIV3Schema", FieldErrorKind.INVALID, str(error), None)


def establish(crd: JsonObject, now: float) -> None:
    """Set the status of a definition whose names no other definition holds."""
    names = dict(crd["spec"]["names"])
    stored = next(version["name"] for version in crd["spec"]["versions"] if version.get("storage"))
    status = crd.setdefault("status", {})
    versions = status.get("storedVersions") or []
    crd["status"] = {
        "conditions": status.get("conditions") or _conditions(timestamp(now)),
        "acceptedNames": names,
        "storedVersions": versions if stored in versions else [*versions, stored],
    }


def _conditions(now: str) -> list[JsonObject]:
    return [
        {
            "type": "NamesAccepted",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "NoConflicts",
            "message": "no conflicts found",
        },
        {
            "type": "Established",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "InitialNamesAccepted",
            "message": "the initial names have been accepted",
        },
    ]


def storage_of(crd: JsonObject) -> str:
    """The name of the collection that holds a definition's objects: `<plural>.<group>`."""
    return str(crd["metadata"]["name"])


def types_of(crd: JsonObject) -> Iterator[ResourceType]:
    """One resource type per served version, the storage version first, as discovery prefers it."""
    versions = sorted(crd["spec"]["versions"], key=lambda version: not version.get("storage"))
    for version in versions:
        if version.get("served"):
            yield _type(crd, version)


def _type(crd: JsonObject, version: JsonObject) -> ResourceType:
    spec, names = crd["spec"], crd["spec"]["names"]
    openapi = version["schema"]["openAPIV3Schema"]
    stored = next(v["name"] for v in spec["versions"] if v.get("storage"))
    api_version, stored_version = (f"{spec['group']}/{name}" for name in (version["name"], stored))
    converts = api_version != stored_version
    subresources = version.get("subresources") or {}
    schema, rules = _compiled(canonical(openapi))
    return ResourceType(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        storage=storage_of(crd),
        singular=names["singular"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        has_status="status" in subresources,
        scale=_scale(subresources.get("scale")),
        custom=True,
        tracks_generation=True,
        unconditional_update=False,
        columns=printer_columns(version.get("additionalPrinterColumns", [])),
        selectable_fields=tuple(f["jsonPath"].lstrip(".") for f in version.get("selectableFields", ())),
        openapi=openapi,
        schema=schema,
        rules=rules,
        to_storage=(lambda obj: obj | {"apiVersion": stored_version}) if converts else None,
        from_storage=_read_as(api_version) if len(spec["versions"]) > 1 else None,
    )


def _read_as(api_version: str) -> Callable[[JsonObject], JsonObject]:
    """Objects keep the version in which they were stored until they are written again, as in etcd."""

    def read(obj: JsonObject) -> JsonObject:
        return obj if obj["apiVersion"] == api_version else obj | {"apiVersion": api_version}

    return read


def _scale(declared: JsonObject | None) -> ScalePaths | None:
    if declared is None:
        return None
    selector = declared.get("labelSelectorPath")
    return ScalePaths(
        _keys(declared["specReplicasPath"]),
        _keys(declared["statusReplicasPath"]),
        _keys(selector) if selector else None,
    )


def _keys(path: str) -> tuple[str, ...]:
    return tuple(path.strip(".").split("."))
