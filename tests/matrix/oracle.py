"""What a cluster has come to, in a form in which two runs of the same story are equal. Pure.

Everything that a server draws at random or reads from a clock is replaced: UIDs by the names of what they identify,
times by a word, generated names by their prefix and a number. What is left is what the platform decided.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import count
from typing import Any, Final, NamedTuple

from aim_domain import labels
from controller_runtime import JsonObject, canonical


class ObjectKey(NamedTuple):
    """Which object."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


_DROPPED_METADATA: Final = frozenset(
    {"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"}
)
_DROPPED_ANNOTATIONS: Final = frozenset(
    {
        labels.ANNOTATION_ADDRESS_CLAIMED,
        labels.ANNOTATION_BACKENDS_CHANGED,
        labels.ANNOTATION_TRACEPARENT,
        labels.ANNOTATION_APPLIED_HASH,
        labels.ANNOTATION_WORKLOAD_GENERATIONS,
        "volume.beta.kubernetes.io/storage-provisioner",
        "volume.kubernetes.io/storage-provisioner",
    }
)
"""How often a workload was changed, and when a route moved or got other backends, tell of the way, not of its end. The
volume controller asks for a provisioner only where it saw the claim before it saw the volume."""
_DROPPED_FIELDS: Final = frozenset({"lastTransitionTime", "observedGeneration", "discoveryJob", "lastFailureInfo"})
"""The last also tells of the way, not of its end: KServe keeps it for ever, and counts an engine as failed that is
scaled down before all is ready. What has failed for good is in the rest of a `modelStatus`."""
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_HASH: Final = re.compile(r"-(?:[0-9a-f]{8,10}|(?=[a-z]*\d)[0-9a-z]{8,10})(?=-|$|[^0-9a-z-])")
"""Part of a name that is derived from other names, mostly UIDs."""
_CUT_HASH: Final = re.compile(r"-[0-9a-f]{1,10}-?$")
"""The same at the end of a prefix that was cut to a length."""
_RANDOM: Final = 5
"""Characters that the API server appends to a generated name, whose prefix it cuts to make room."""
_RECOVERING: Final = frozenset({"AuthValid", "ConfigValid", "DependenciesReachable"})
"""Conditions that are there once an error was, and then say that it is over."""
_MOST_NAMED: Final = 12
"""Differences that are told; more of them say no more."""


def key_of(obj: JsonObject) -> ObjectKey:
    """The key of a stored object."""
    metadata = obj["metadata"]
    return ObjectKey(obj["kind"], metadata.get("namespace") or "", metadata["name"])


def normalised(objects: Iterable[JsonObject]) -> dict[ObjectKey, JsonObject]:
    """The objects without what no two runs have in common.

    Names that hold a hash or a random part lose it; namesakes are numbered in the order of what they hold.
    """
    present = [obj for obj in objects if not _is_passing(obj)]
    uids = {str(obj["metadata"]["uid"]): f"<uid of {plain_name(obj)}>" for obj in present}
    generated = {obj["metadata"]["name"]: plain_name(obj) for obj in present if _generated_prefix(obj)}
    replace = _Replacing(uids, generated)
    found: dict[ObjectKey, JsonObject] = {}
    cleaned = [(key_of(obj)._replace(name=plain_name(obj)), _normal(obj, replace)) for obj in present]
    for key, obj in sorted(cleaned, key=lambda one: (one[0], canonical(one[1]))):
        number = next(number for number in count(1) if _numbered(key, number) not in found)
        found[_numbered(key, number)] = obj
    return found


def differences(expected: Mapping[ObjectKey, JsonObject], actual: Mapping[ObjectKey, JsonObject]) -> list[str]:
    """What is missing, extra or other than expected, in words; empty when nothing is."""
    found = [f"missing: {key}" for key in sorted(expected.keys() - actual.keys())]
    found += [f"extra: {key}" for key in sorted(actual.keys() - expected.keys())]
    for key in sorted(expected.keys() & actual.keys()):
        found += [f"{key}: {text}" for text in _differing("", expected[key], actual[key])]
    return found[:_MOST_NAMED]


def orphans(objects: Iterable[JsonObject], kinds: Collection[str]) -> list[str]:
    """Objects whose owners are all gone, in words; an owner of another kind than ``kinds`` counts as there."""
    present = list(objects)
    uids = {obj["metadata"]["uid"] for obj in present}
    owned = ((obj, obj["metadata"].get("ownerReferences") or ()) for obj in present)
    return [
        f"orphan: {key_of(obj)}"
        for obj, owners in owned
        if owners and not any(one["uid"] in uids or one["kind"] not in kinds for one in owners)
    ]


def without(objects: Iterable[JsonObject], roots: Callable[[ObjectKey], bool]) -> list[JsonObject]:
    """The objects but for some and all that only they own, in however many steps."""
    left = list(objects)
    gone = {obj["metadata"]["uid"] for obj in left if roots(key_of(obj))}
    while True:
        owned = {obj["metadata"]["uid"] for obj in left if _owners(obj) and _owners(obj) <= gone}
        if owned <= gone:
            return [obj for obj in left if obj["metadata"]["uid"] not in gone]
        gone |= owned


def _owners(obj: JsonObject) -> set[str]:
    return {str(one["uid"]) for one in obj["metadata"].get("ownerReferences") or ()}


class _Replacing:
    """Replaces what is random in strings."""

    def __init__(self, uids: Mapping[str, str], names: Mapping[str, str]) -> None:
        self._uids = uids
        self._names = names
        self._generated = re.compile("|".join(map(re.escape, names))) if names else None

    def __call__(self, text: str) -> str:
        if self._generated is not None:
            text = self._generated.sub(lambda found: self._names[found[0]], text)
        text = _UUID.sub(lambda found: self._uids.get(found[0], "<uid>"), text)
        return _HASH.sub("-<hash>", _TIME.sub("<time>", text))


def plain_name(obj: JsonObject) -> str:
    """Its name without what is drawn at random."""
    prefix = _generated_prefix(obj)
    name = f"{_CUT_HASH.sub('-', prefix)}<random>" if prefix else obj["metadata"]["name"]
    return _HASH.sub("-<hash>", name)


def _is_passing(obj: JsonObject) -> bool:
    """Whether it goes away by itself, so that the time of a comparison decides whether it is there."""
    labelled = (obj["metadata"].get("labels") or {}).get(labels.APP_COMPONENT)
    return obj["kind"] in ("Job", "Pod") and labelled == labels.APP_COMPONENT_DISCOVERY


def _numbered(key: ObjectKey, number: int) -> ObjectKey:
    return key if number == 1 else key._replace(name=f"{key.name} <{number}>")


def _generated_prefix(obj: JsonObject) -> str:
    given, name = obj["metadata"].get("generateName") or "", str(obj["metadata"]["name"])
    return name[:-_RANDOM] if given and given.startswith(name[:-_RANDOM]) else ""


def _normal(obj: JsonObject, replace: _Replacing) -> JsonObject:
    if obj["kind"] == "Pod":
        # Nobody here writes pods: how many there are and what has become of them is enough.
        return {"phase": (obj.get("status") or {}).get("phase")}
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _DROPPED_METADATA}
    annotations = {
        name: value for name, value in (metadata.get("annotations") or {}).items() if name not in _DROPPED_ANNOTATIONS
    }
    metadata = {**metadata, "annotations": annotations}
    cleaned: JsonObject = _cleaned({**obj, "metadata": metadata}, replace)
    return cleaned


def _cleaned(value: Any, replace: _Replacing) -> Any:
    if isinstance(value, dict):
        kept = {replace(name): one for name, one in value.items() if name not in _DROPPED_FIELDS}
        return {name: _cleaned(one, replace) for name, one in kept.items()}
    if isinstance(value, list):
        return _ordered([_cleaned(one, replace) for one in value])
    return replace(value) if isinstance(value, str) else value


def _ordered(items: list[Any]) -> list[Any]:
    """Conditions have no order, and one that tells that a fault is over may stay; everything else is as it is."""
    if _are_conditions(items):
        lasting = (one for one in items if one["type"] not in _RECOVERING or one["status"] != "True")
        return sorted(lasting, key=lambda one: str(one["type"]))
    return items


def _are_conditions(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(one, dict) and {"type", "status"} <= one.keys() for one in value)


def _differing(path: str, expected: Any, actual: Any) -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(actual, dict):
        for name in sorted(expected.keys() | actual.keys()):
            yield from _differing(f"{path}.{name}", expected.get(name), actual.get(name))
    elif _are_conditions(expected) and _are_conditions(actual):
        yield from _differing(path, {one["type"]: one for one in expected}, {one["type"]: one for one in actual})
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for number, (one, other) in enumerate(zip(expected, actual, strict=True)):
            yield from _differing(f"{path}[{number}]", one, other)
    elif expected != actual:
        yield f"{path or '.'}: {_short(expected)} became {_short(actual)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:159]}…"
