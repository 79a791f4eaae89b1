"""Component health: what one dependency, child or check says about the object (FW-030…FW-039).

A reconciler makes one `Component` per aspect, usually from a look-up with `upstream`, `downstream` or `plain`; the
state engine turns them into conditions and one status.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

from controller_runtime.api.enums import StatusValue
from controller_runtime.api.meta import Resource
from controller_runtime.bus.view import Lookup
from controller_runtime.errors import Category, ClassifiedError
from controller_runtime.reconcile.condition_names import condition_type
from controller_runtime.reconcile.hold import Hold

T = TypeVar("T", bound=Resource)

State: TypeAlias = StatusValue
"""State of a component; the same closed set as the status of objects (FW-020)."""

ERROR_STATES: Final = frozenset({State.FAILED, State.DEGRADED, State.NOT_AVAILABLE})
"""States that need somebody's attention (FW-076 rule 6, FW-122)."""


class Dependency(StrEnum):
    """Which way the object and the component depend on each other (FW-031)."""

    UPSTREAM = "upstream"
    """The object needs it, but does not create it: a model, a template, a Secret."""
    DOWNSTREAM = "downstream"
    """Everything else, first of all what the object creates: a pod, a Job, a claim, a route."""


class Observability(Enum):
    """How loudly a condition is reported (FW-122)."""

    INFO = "info"
    """A Normal event on transition."""
    WARNING = "warning"
    """A Warning event on transition: a transient problem."""
    ERROR = "error"
    """A Warning event on transition, repeated while the condition stands (FW-125)."""
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class Reference:
    """One specific object that a component is about (FW-030)."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Component:
    """Health of one aspect. What is ``None`` is derived from the errors (FW-032…FW-034).

    Attributes:
        name: a `ComponentName`; an empty one discards the component (FW-037).
        is_input: whether its errors block deletes and applies (FW-090); by default those of upstream components do.
        observe: overrides the class of observability that follows from the state.
        counted_only: its condition is not written here: another service writes it (FW-374), or it is not told yet.
        hold: how long it is not told (FW-510); see `hold_for`.
    """

    name: str
    state: State | None = None
    reason: str | None = None
    message: str | None = None
    errors: tuple[ClassifiedError, ...] = ()
    dependency: Dependency = Dependency.DOWNSTREAM
    is_input: bool | None = None
    reference: Reference | None = None
    observe: Observability | None = None
    counted_only: bool = False
    hold: Hold | None = None

    @property
    def condition_type(self) -> str:
        return condition_type(self.name)

    @property
    def effective_state(self) -> State:
        return self.state if self.state is not None else state_of(self.errors)

    @property
    def effective_reason(self) -> str:
        if self.reason:
            return self.reason
        return self.errors[0].reason if self.errors else "Ready"

    @property
    def effective_message(self) -> str:
        if self.message is not None:
            return self.message
        return self.errors[0].message if self.errors else ""

    @property
    def blocks(self) -> bool:
        """Whether errors of this component are errors of an input (FW-090)."""
        return self.dependency is Dependency.UPSTREAM if self.is_input is None else self.is_input

    def hold_for(
        self, span: timedelta, *, since: datetime, over: Mapping[str, State] = MappingProxyType({}), whole: bool = False
    ) -> "Component":
        """The component, told only once it has lasted (FW-510).

        Args:
            over: reasons of its stored condition that may stand meanwhile, with the state that each stands for;
                `UNTOLD` = there is no condition yet. Over any other it is told at once.
            whole: the whole status stays as it is stored, not the condition of the component alone.
        """
        return replace(self, hold=Hold(span, since, over, whole))

    def hold_until_known(self, *, over: Mapping[str, State] = MappingProxyType({}), whole: bool = False) -> "Component":
        """The component, told only once an effect of the same plan has brought its fact, which wakes the object."""
        return replace(self, hold=Hold(over=over, whole=whole))


_FAILING: Final = frozenset({Category.AUTH, Category.RESOURCE_EXHAUSTION, Category.INVALID_SPEC})
_DEGRADING: Final = frozenset({Category.MISSING_UPSTREAM, Category.INFRASTRUCTURE})


def state_of(errors: tuple[ClassifiedError, ...]) -> State:
    """State that follows from errors alone (FW-034, FW-047)."""
    categories = {error.category for error in errors}
    if not categories:
        return State.READY
    if categories & _FAILING:
        return State.FAILED
    return State.DEGRADED if categories & _DEGRADING else State.PROGRESSING


Inspect: TypeAlias = Callable[[T], Component]
"""Says how an object that was found is doing; name and dependency are filled in afterwards."""


def healthy(_: Resource) -> Component:
    """The inspector of things whose existence is all that matters."""
    return Component("", State.READY)


def upstream(name: str, lookup: Lookup[T], inspect: Inspect[T] = healthy, *, what: str) -> Component:
    """Component of something the object refers to; not found is a missing reference (FW-039).

    Args:
        what: kind and name for the message, such as ``AIMModel ml/qwen``.
    """
    missing = ClassifiedError(
        Category.MISSING_UPSTREAM, "ReferenceNotFound", f"{what} was not found; create it or correct the reference"
    )
    return _convert(name, lookup, inspect, missing, Dependency.UPSTREAM)


def downstream(name: str, lookup: Lookup[T], inspect: Inspect[T] = healthy, *, what: str) -> Component:
    """Component of a child; not found means not there yet (FW-039). A failed read of it blocks (FW-090)."""
    missing = ClassifiedError(Category.MISSING_DOWNSTREAM, "ResourceNotReady", f"{what} does not exist yet")
    return _convert(name, lookup, inspect, missing, Dependency.DOWNSTREAM)


def plain(name: str, lookup: Lookup[T], inspect: Inspect[T] = healthy, *, what: str) -> Component:
    """Component of neither kind; not found is reported as it is (FW-039)."""
    missing = ClassifiedError(Category.MISSING_DOWNSTREAM, "NotFound", f"{what} was not found")
    return _convert(name, lookup, inspect, missing, Dependency.DOWNSTREAM)


def _convert(
    name: str, lookup: Lookup[T], inspect: Inspect[T], missing: ClassifiedError, dependency: Dependency
) -> Component:
    if lookup.value is not None:
        return replace(inspect(lookup.value), name=name, dependency=dependency)
    if lookup.error is not None:
        return Component(name, errors=(lookup.error,), dependency=dependency, is_input=True)
    return Component(name, errors=(missing,), dependency=dependency)
