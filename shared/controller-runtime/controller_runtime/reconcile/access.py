"""How a service says what it does to the Kubernetes API, so that its role can be made from that and from nothing else.

What plans write is declared by part, because the executor holds every plan against it. What effects do is declared by
kind of effect, because their runners call the API themselves.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from controller_runtime.kind_names import KindName
from controller_runtime.log.wire.part import Part
from controller_runtime.reconcile.plan import Plan, Verb, WriteMode


class ApiVerb(StrEnum):
    """A verb of Kubernetes' authorization."""

    GET = "get"
    LIST = "list"
    WATCH = "watch"
    CREATE = "create"
    UPDATE = "update"
    PATCH = "patch"
    DELETE = "delete"
    BIND = "bind"


class Where(StrEnum):
    """How far a permission reaches."""

    CLUSTER = "cluster"
    """All namespaces, or what has none."""
    SYSTEM_NAMESPACE = "system-namespace"
    """The operator namespace only."""


@dataclass(frozen=True, slots=True)
class Access:
    """Verbs on a resource or a subresource of it.

    Attributes:
        resource: plural, with the subresource behind a slash.
        names: only objects of these names; empty = all.
    """

    group: str
    resource: str
    verbs: frozenset[ApiVerb]
    names: frozenset[str] = frozenset()
    where: Where = Where.CLUSTER


def access(
    kind: KindName, *verbs: ApiVerb, subresource: str = "", name: str = "", where: Where = Where.CLUSTER
) -> Access:
    """What is done to a kind, or to a subresource of it."""
    resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
    return Access(kind.group, resource, frozenset(verbs), frozenset({name} if name else ()), where)


@dataclass(frozen=True, slots=True)
class Writes:
    """What plans may do to the objects of a part. Own statuses and finalizers follow from the reconcilers.

    Attributes:
        verbs: of `CREATE`, `APPLY`, `PATCH` and `DELETE`.
    """

    part: Part[Any]
    verbs: frozenset[Verb]


def writes(part: Part[Any], *verbs: Verb) -> Writes:
    """What plans may do to the objects of a part."""
    return Writes(part, frozenset(verbs))


class UndeclaredWriteError(RuntimeError):
    """A plan would write what its service does not declare, and so has no permission for."""


_CHILDREN = {WriteMode.APPLY: Verb.APPLY, WriteMode.CREATE: Verb.CREATE}


def require_declared(plan: Plan, declared: Iterable[Writes]) -> None:
    """Refuse a plan before any of it is carried out.

    Raises:
        UndeclaredWriteError: it names the part, the verb, and where to declare it.
    """
    allowed = {(one.part.name, verb) for one in declared for verb in one.verbs}
    wanted = [(child.part.name, _CHILDREN[child.mode]) for child in plan.children]
    wanted += [(patch.part.name, Verb.PATCH) for patch in plan.patches]
    wanted += [(delete.part.name, Verb.DELETE) for delete in plan.deletes]
    for part, verb in wanted:
        if (part, verb) not in allowed:
            raise UndeclaredWriteError(
                f"a plan would {verb.value} an object of {part}, which its service does not declare; "
                "add it to `writes` of the ServiceDefinition and run `make chart`"
            )
