"""Objects as the event log knows them: by the part that they belong to.

Not the parts of the platform: these come with the models of their objects, whose import takes longer than an answer may
(FW-684). A test holds them equal to `aim_domain.parts`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aim_cli.cluster.refs import Ref
from aim_cli.cluster.targets import Where
from aim_cli.cluster.targets import target as named
from aim_cli.errors import TargetError
from aim_domain import kind_names as resources
from aim_domain.kind_names import KindName
from controller_runtime import Key

if TYPE_CHECKING:
    from controller_runtime.log import DecisionFilter, History


@dataclass(frozen=True, slots=True)
class LoggedPart:
    """What the log holds under one name; see `Part`."""

    name: str
    kind: KindName
    optional: bool = False


def _whole(*kinds: KindName, optional: bool = False) -> tuple[LoggedPart, ...]:
    return tuple(LoggedPart(kind.plural, kind, optional) for kind in kinds)


LOGGED: Final = (
    *_whole(*resources.OWN),
    *_whole(*resources.OLDER, optional=True),
    LoggedPart("jobs-discovery", resources.JOB),
    LoggedPart("pods-discovery", resources.POD),
    *_whole(resources.NODE),
    LoggedPart("configmaps-custom-profile", resources.CONFIG_MAP),
    LoggedPart("configmaps-service-plan", resources.CONFIG_MAP),
    LoggedPart("configmaps-profile-catalogue", resources.CONFIG_MAP),
    *_whole(resources.PERSISTENT_VOLUME_CLAIM),
    LoggedPart("jobs-artifacts", resources.JOB),
    LoggedPart("pods-artifacts", resources.POD),
    *_whole(resources.ROLE_BINDING, resources.INFERENCE_SERVICE),
    LoggedPart("events-inferenceservices", resources.EVENT),
    *_whole(resources.HORIZONTAL_POD_AUTOSCALER),
    LoggedPart("pods-predictor", resources.POD),
    *_whole(resources.NAMESPACE, resources.HTTP_ROUTE, resources.GATEWAY),
)
"""Every part but that of the facts."""

_ANYWHERE: Final = Where()


@dataclass(frozen=True, slots=True)
class Target:
    """One object of one part."""

    part: LoggedPart
    key: Key

    def __str__(self) -> str:
        return f"{self.part.kind.kind} {self.key}"


def target(kind: str, name: str | None, where: Where = _ANYWHERE) -> Target:
    """As `aim_cli.cluster.targets.target`, of the kinds that are published.

    Raises:
        TargetError: no such kind, or a name of another form.
    """
    found = target_of(named(kind, name, where))
    if found is None:
        raise TargetError(f"the event log holds nothing of the kind {kind!r}")
    return found


def target_of(ref: Ref) -> Target | None:
    """The first part of the kind; ``None`` of kinds without a publisher."""
    part = next((part for part in LOGGED if part.kind == ref.kind), None)
    return None if part is None else Target(part, Key(ref.namespace, ref.name))


async def located(history: "History", named: Target) -> Target:
    """The object in the part that holds it; as it was named where none does.

    Pods, Jobs and ConfigMaps are in several parts, each of which is then asked.
    """
    same = [part for part in LOGGED if part.kind == named.part.kind]
    if len(same) == 1:
        return named
    found = await history.chains((part.name, named.key) for part in same)
    holding = (part for part in same if found[part.name, named.key].versions)
    return Target(next(holding, named.part), named.key)


def kind_name(part: str) -> str:
    """The kind of a part, for people; the part's own name where the table does not know it."""
    return next((known.kind.kind for known in LOGGED if known.name == part), part)


def decisions_of(kind: str | None, name: str | None, where: Where) -> "DecisionFilter":
    """The decisions about an object; without a kind all, or those of a namespace.

    Raises:
        TargetError: no such kind, or its name is missing.
    """
    # Who names one object needs none of it.
    from controller_runtime.log import DecisionFilter  # noqa: PLC0415

    if kind is None:
        return DecisionFilter(namespace=where.namespace)
    if name is None and "/" not in kind:
        raise TargetError(f"name of the {kind} is missing; give it, or neither kind nor name for every decision")
    wanted = target(kind, name, where)
    return DecisionFilter(part=wanted.part.name, namespace=wanted.key.namespace, name=wanted.key.name)
