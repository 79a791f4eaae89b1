"""Drafts of a migration: old kinds, specs on their way to today's form, and findings for the user (RC-126)."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeAlias, final

from aim_domain import kinds
from aim_domain.kind_names import KindName
from controller_runtime import JsonObject, Kind


@final
@dataclass(frozen=True, slots=True)
class Origin:
    """An object as it was before; the namespace is empty for cluster-scoped kinds."""

    group: str
    kind: str
    namespace: str
    name: str

    @property
    def text(self) -> str:
        """Value of the annotation that tells where an object came from (RC-127).

        >>> Origin("aim.silogen.ai", "AIMService", "team", "chat").text
        'aim.silogen.ai/AIMService/team/chat'
        """
        return "/".join(part for part in (self.group, self.kind, self.namespace, self.name) if part)

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Weight(Enum):
    """What a finding means; the value is the headline of its section in the report."""

    LOST = "Not mapped"
    CONFLICT = "Kept as it is, although it differs"
    REFUSED = "Refused by the API server"
    CHANGED = "Mapped, with a difference"
    IGNORED = "Without effect here"
    LEFT = "Left alone"


FAILURES: Final = frozenset({Weight.LOST, Weight.CONFLICT, Weight.REFUSED})
"""What a user has to act on: the command exits with 1."""


@final
@dataclass(frozen=True, slots=True)
class Finding:
    """One remark: about which object (for conflicts and refusals today's, else the old one), which field, and why."""

    weight: Weight
    about: str
    field: str
    reason: str


OLD_GROUP: Final = "aim.silogen.ai"
CONFIG_GROUP: Final = "config.kaiwo.silogen.ai"
OLD_GROUPS: Final = frozenset({OLD_GROUP, CONFIG_GROUP})


_OLD_VERSION: Final = "v1alpha1"


@final
@dataclass(frozen=True, slots=True)
class OldKind(KindName):
    """A kind that is no longer served, and the one that took its place."""

    today: Kind[Any] = field(kw_only=True)


def _renamed(kind: str, plural: str, today: Kind[Any], group: str = OLD_GROUP, *, namespaced: bool = True) -> OldKind:
    return OldKind(group, _OLD_VERSION, kind, plural, namespaced, today=today)


def _same(kind: Kind[Any]) -> OldKind:
    return OldKind(OLD_GROUP, _OLD_VERSION, kind.kind, kind.plural, kind.namespaced, today=kind)


MODEL_CACHE: Final = _renamed("AIMModelCache", "aimmodelcaches", kinds.AIM_ARTIFACT)
NAMESPACE_CONFIG: Final = _renamed(
    "AIMNamespaceConfig", "aimnamespaceconfigs", kinds.AIM_RUNTIME_CONFIG, group=CONFIG_GROUP
)
KAIWO_CONFIG: Final = _renamed(
    "KaiwoConfig", "kaiwoconfigs", kinds.AIM_CLUSTER_RUNTIME_CONFIG, group=CONFIG_GROUP, namespaced=False
)

# Configs of the old AIM group come before the older ones that add to the same object: the first value of a field wins.
OLD_KINDS: Final = (
    _same(kinds.AIM_CLUSTER_RUNTIME_CONFIG),
    _same(kinds.AIM_RUNTIME_CONFIG),
    KAIWO_CONFIG,
    NAMESPACE_CONFIG,
    _same(kinds.AIM_CLUSTER_MODEL),
    _same(kinds.AIM_MODEL),
    _same(kinds.AIM_CLUSTER_SERVICE_TEMPLATE),
    _same(kinds.AIM_SERVICE_TEMPLATE),
    MODEL_CACHE,
    _same(kinds.AIM_TEMPLATE_CACHE),
    _same(kinds.AIM_SERVICE),
)
"""In the order of writing: what is referred to comes before what refers to it."""

CONFIG_KINDS: Final = frozenset({kinds.AIM_RUNTIME_CONFIG.kind, kinds.AIM_CLUSTER_RUNTIME_CONFIG.kind})
"""Kinds of which an existing object is completed; of all others it is left as it is (RC-126)."""


def old_kind(group: str, kind: str) -> OldKind | None:
    """The old kind of that name, None when there is no such."""
    return next((one for one in OLD_KINDS if (one.group, one.kind) == (group, kind)), None)


_WHOLE: Final = frozenset({"spec.routing.gatewayRef", "spec.storage.downloadFilter"})
"""Blocks that are one value: half of one and half of another would be a third (RC-032)."""
_BY_NAME: Final = "spec.env"


def completed(base: JsonObject, addition: JsonObject) -> tuple[JsonObject, list[str]]:
    """``base`` with the fields that only ``addition`` has, and the paths at which both say something else."""
    conflicts: list[str] = []
    return {
        **base,
        "spec": _completed(base.get("spec") or {}, addition.get("spec") or {}, "spec", conflicts),
    }, conflicts


def _completed(base: JsonObject, addition: JsonObject, path: str, conflicts: list[str]) -> JsonObject:
    merged = dict(base)
    for name, value in addition.items():
        here = f"{path}.{name}"
        there = base.get(name)
        if value is None:
            # The API server stores no null: to it the field is absent (CC-009).
            continue
        if there is None:
            merged[name] = value
        elif here == _BY_NAME and isinstance(there, list) and isinstance(value, list):
            merged[name] = _merge_named(there, value, conflicts)
        elif isinstance(there, dict) and isinstance(value, dict) and here not in _WHOLE:
            merged[name] = _completed(there, value, here, conflicts)
        elif not contains(there, value):
            conflicts.append(here)
    return merged


def _merge_named(base: list[JsonObject], addition: list[JsonObject], conflicts: list[str]) -> list[JsonObject]:
    there = {entry.get("name"): entry for entry in base}
    for entry in addition:
        name = entry.get("name")
        if name in there and not contains(there[name], entry):
            conflicts.append(f"{_BY_NAME}[{name}]")
    return [*base, *(entry for entry in addition if entry.get("name") not in there)]


def contains(there: object, wanted: object) -> bool:
    """Whether a stored value is what was wanted; the API server may have added defaults to it."""
    if isinstance(there, dict) and isinstance(wanted, dict):
        return all(contains(there.get(name), value) for name, value in wanted.items())
    if isinstance(there, list) and isinstance(wanted, list):
        return len(there) == len(wanted) and all(map(contains, there, wanted))
    return there == wanted


def differences(there: object, wanted: object, path: str) -> list[str]:
    """Paths at which a stored object is not what was wanted."""
    if isinstance(there, dict) and isinstance(wanted, dict):
        return [one for name, value in wanted.items() for one in differences(there.get(name), value, f"{path}.{name}")]
    return [] if contains(there, wanted) else [path]


Json: TypeAlias = JsonObject | list["Json"] | str | int | float | bool | None


class Draft:
    """The old spec, which rules change in place; what they have to say about it is collected.

    Everything that no rule touches stays, so a field that has kept its name and meaning needs no rule. What today's
    kind does not know is found afterwards, by its schema.

    Attributes:
        spec: the spec so far.
        findings: remarks in the order of the rules.
    """

    def __init__(self, origin: Origin, spec: JsonObject) -> None:
        self.origin = origin
        self.spec: JsonObject = deepcopy(spec)
        self.findings: list[Finding] = []

    def block(self, *path: str) -> JsonObject:
        """The object at a path; an empty one, which is no part of the spec, where there is none."""
        value: object = self.spec
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value if isinstance(value, dict) else {}

    def items(self, *path: str) -> list[JsonObject]:
        """The objects in the list at a path."""
        value = self.block(*path[:-1]).get(path[-1])
        return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []

    def take(self, *path: str) -> Json:
        """Remove a value and return it, None when it is absent; a block that becomes empty goes as well."""
        block = self.block(*path[:-1])
        value: Json = block.pop(path[-1], None)
        if len(path) > 1 and value is not None and not block:
            self.take(*path[:-1])
        return value

    def put(self, value: Json, *path: str) -> Json:
        """Set a value, unless today's field is there already: an explicit new name wins over the old one.

        Returns what is in its place then.
        """
        block = self.spec
        for name in path[:-1]:
            below: Json = block.setdefault(name, {})
            if not isinstance(below, dict):
                return below
            block = below
        there: Json = block.setdefault(path[-1], value)
        return there

    def move(self, old: Sequence[str], new: Sequence[str], *, overruled: bool = False) -> None:
        """Rename a field; that another value stands under the new name is a conflict.

        Args:
            overruled: the old kind itself did not look at the old name then.
        """
        value = self.take(*old)
        if value is not None and self.put(value, *new) != value and not overruled:
            self.report(
                Weight.CONFLICT, f"spec.{'.'.join(old)}", f"spec.{'.'.join(new)} says something else, and stays"
            )

    def lose(self, field: str, reason: str) -> None:
        """Remark that a field has no place today."""
        self.report(Weight.LOST, field, reason)

    def report(self, weight: Weight, field: str, reason: str) -> None:
        """Remark something about a field of the old object."""
        self.findings.append(Finding(weight, str(self.origin), field, reason))
