"""Objects of others that planned objects name, and those of them that are missing (FW-876). Pure but for `Cluster`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from aim_cli.cluster.refs import Cluster, JsonObject, Ref
from aim_cli.planning.sandbox import Sandbox
from aim_domain.kind_names import (
    AIM_CLUSTER_RUNTIME_CONFIG,
    AIM_RUNTIME_CONFIG,
    AIM_SERVICE,
    CONFIG_MAP,
    GATEWAY,
    HTTP_ROUTE,
    OWN,
    SECRET,
    KindName,
)

SERVICE_ACCOUNT: Final = KindName("", "v1", "ServiceAccount", "serviceaccounts")
STORAGE_CLASS: Final = KindName("storage.k8s.io", "v1", "StorageClass", "storageclasses", False)
PRIORITY_CLASS: Final = KindName("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False)
_NAMES: Final = {
    "serviceAccountName": SERVICE_ACCOUNT,
    "priorityClassName": PRIORITY_CLASS,
    "storageClassName": STORAGE_CLASS,
    "defaultStorageClassName": STORAGE_CLASS,
}
"""Fields that hold the name of one."""
_KEYS: Final = {"secretKeyRef": SECRET, "configMapKeyRef": CONFIG_MAP}
"""Fields that hold the name of one and a key in it."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What an object names.

    Attributes:
        field: that names it, such as ``spec.env[HF_TOKEN]``.
        key: that it has to have; empty where none is named.
    """

    by: Ref
    field: str
    to: Ref
    key: str = ""


@dataclass(frozen=True, slots=True)
class Missing:
    """A reference that leads nowhere; ``key_only`` where the object exists without the key."""

    reference: Reference
    key_only: bool = False

    @property
    def remedy(self) -> str:
        """What to type."""
        to, key = self.reference.to, self.reference.key
        where = f" -n {to.namespace}" if to.namespace else ""
        if to.kind != SECRET:
            return f"create it, or correct the field: kubectl get {to.kind.plural}{where}"
        if self.key_only:
            data = f'{{"stringData":{{"{key}":"VALUE"}}}}'
            return f"add it: kubectl patch secret {to.name}{where} --type merge -p '{data}'"
        if key:
            return f"create it: kubectl create secret generic {to.name}{where} --from-literal={key}=VALUE"
        login = "--docker-server=REGISTRY --docker-username=USER --docker-password=PASSWORD"
        return f"create it: kubectl create secret docker-registry {to.name}{where} {login}"

    @property
    def line(self) -> str:
        """For people."""
        one = self.reference
        what = f"{one.to} has no key {one.key}" if self.key_only else f"{one.to} does not exist"
        return f"{'missing':10}{what}: {one.field} of {one.by} names it; {self.remedy}"

    @property
    def data(self) -> JsonObject:
        """For ``-o json``."""
        one = self.reference
        named = {"object": one.to.data, "key": one.key, "field": one.field, "by": one.by.data}
        return {**named, "exists": self.key_only, "remedy": self.remedy}


def references_of(by: Ref, spec: object) -> Iterator[Reference]:
    """What the spec of an object names that its namespace or the cluster has to have."""
    yield from _walk(by, spec, "spec")


def _walk(by: Ref, value: object, path: str) -> Iterator[Reference]:
    if isinstance(value, list):
        for number, one in enumerate(value):
            name = one.get("name") if isinstance(one, dict) else None
            yield from _walk(by, one, f"{path}[{name or number}]")
    elif isinstance(value, dict):
        for name, one in value.items():
            named = list(_by_field(by, f"{path}.{name}", name, one))
            yield from named or _walk(by, one, f"{path}.{name}")


def _by_field(by: Ref, path: str, name: str, value: object) -> Iterator[Reference]:
    """What one field names by itself."""
    if name in _NAMES and isinstance(value, str) and value:
        yield from _in_scope(by, path, _NAMES[name], value)
    for one in _entries(value):
        if name in _KEYS and not one.get("optional"):
            field = path.removesuffix(f".valueFrom.{name}")
            yield from _in_scope(by, field, _KEYS[name], one["name"], str(one.get("key") or ""))
        elif name == "imagePullSecrets":
            yield from _in_scope(by, path, SECRET, one["name"])
        elif name in ("gatewayRef", "parentRefs") and one.get("kind", GATEWAY.kind) == GATEWAY.kind:
            yield Reference(by, path, Ref(GATEWAY, str(one.get("namespace") or by.namespace), one["name"]))


def _entries(value: object) -> Iterator[JsonObject]:
    """Members with a name; what could not be rehearsed may hold anything."""
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, dict) and isinstance(one.get("name"), str) and one["name"]:
            yield one


def _in_scope(by: Ref, field: str, kind: KindName, name: str, key: str = "") -> Iterator[Reference]:
    # What a cluster-wide object names is looked for in the namespace of each who uses it.
    if by.namespace or not kind.namespaced:
        yield Reference(by, field, Ref(kind, by.namespace if kind.namespaced else "", name), key)


def missing(cluster: Cluster, sandbox: Sandbox, beside: Iterable[JsonObject]) -> list[Missing]:
    """What planned objects, and what would be made for them, name and is not there.

    Args:
        beside: objects of other kinds in the same files, which will be there.
    """
    given = {(str(obj.get("kind")), obj["metadata"]["namespace"], obj["metadata"]["name"]): obj for obj in beside}
    own = {kind.resource: kind for kind in (*OWN, HTTP_ROUTE)}
    specs: dict[Ref, JsonObject] = {}
    for (part, key), where in sandbox.touched.items():
        kind = own.get(where.part.kind.resource)
        obj = sandbox.objects.get((part, key))
        if kind is not None and obj is not None:
            specs[Ref(kind, key.namespace, key.name)] = obj.get("spec") or {}
    configs = {ref: spec for by, named in specs.items() for ref, spec in _pods_by_config(cluster, by, named)}
    found: dict[tuple[Ref, str], Missing] = {}
    for by, spec in (configs | specs).items():
        for one in references_of(by, spec):
            if (one.to, one.key) not in found and (lacking := _lacking(cluster, one, given)) is not None:
                found[one.to, one.key] = lacking
    return list(found.values())


def _pods_by_config(cluster: Cluster, by: Ref, spec: JsonObject) -> Iterator[tuple[Ref, JsonObject]]:
    """What the runtime configs of a planned service say of its pods and Jobs."""
    name = str(spec.get("runtimeConfigName") or "default")
    for ref in (Ref(AIM_RUNTIME_CONFIG, by.namespace, name), Ref(AIM_CLUSTER_RUNTIME_CONFIG, "", name)):
        config = cluster.find(ref) if by.namespace and by.kind == AIM_SERVICE else None
        if config is not None:
            yield ref, {part: (config.get("spec") or {}).get(part) for part in ("predictors", "jobs")}


def _lacking(cluster: Cluster, reference: Reference, given: dict[tuple[str, str, str], JsonObject]) -> Missing | None:
    to = reference.to
    # What is in no namespace is looked for by its name alone, whatever namespace the file is applied to.
    in_file = (
        one
        for (kind, where, name), one in given.items()
        if (kind, name) == (to.kind.kind, to.name) and to.namespace in ("", where)
    )
    there = next(in_file, None) or cluster.find(to)
    if there is None:
        # What may not be read is not known to be missing.
        return None if str(to) in cluster.unasked else Missing(reference)
    keys = {**(there.get("data") or {}), **(there.get("stringData") or {}), **(there.get("binaryData") or {})}
    return Missing(reference, key_only=True) if reference.key and reference.key not in keys else None
