"""The old kinds, what has become of them, and the order in which today's are written (RC-131, RC-140)."""

from dataclasses import dataclass
from typing import Any, Final, final

from aim_domain import kinds
from controller_runtime import Kind

OLD_GROUP: Final = "aim.silogen.ai"
CONFIG_GROUP: Final = "config.kaiwo.silogen.ai"
OLD_GROUPS: Final = frozenset({OLD_GROUP, CONFIG_GROUP})


@final
@dataclass(frozen=True, slots=True)
class OldKind:
    """Coordinates of a kind that nobody serves any more, and the kind that took its place."""

    group: str
    kind: str
    plural: str
    namespaced: bool
    today: Kind[Any]
    version: str = "v1alpha1"


def _renamed(kind: str, plural: str, today: Kind[Any], group: str = OLD_GROUP, *, namespaced: bool = True) -> OldKind:
    return OldKind(group, kind, plural, namespaced, today)


def _same(kind: Kind[Any]) -> OldKind:
    return OldKind(OLD_GROUP, kind.kind, kind.plural, kind.namespaced, kind)


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
