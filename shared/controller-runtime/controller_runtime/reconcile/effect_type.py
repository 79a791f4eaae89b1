"""I/O that decisions ask for, declared once: what it takes, what it gives, what carries it out, what it may do."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Protocol, TypeAlias, TypeVar

from controller_runtime.api.base import ApiModel, to_json
from controller_runtime.errors import ClassifiedError
from controller_runtime.kube.client import KubeClient
from controller_runtime.log.cache.view import Lookup, View
from controller_runtime.log.history.facts import Fact, get_fact
from controller_runtime.reconcile.access import Access
from controller_runtime.reconcile.plan import Effect


class EffectError(Exception):
    """Raised by an effect runner: the effect failed for a reason that is worth a fact."""

    def __init__(self, error: ClassifiedError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True)
class Clients:
    """What runners of effects read and write through. A service that needs more than the API server extends it."""

    kube: KubeClient


OpenClients: TypeAlias = Callable[[KubeClient], AbstractAsyncContextManager[Clients]]


@asynccontextmanager
async def api_server_alone(kube: KubeClient) -> AsyncIterator[Clients]:
    """The clients of a service whose effects need no more."""
    yield Clients(kube)


P_contra = TypeVar("P_contra", bound=ApiModel, contravariant=True)
R_co = TypeVar("R_co", bound=ApiModel, covariant=True)


class EffectRunner(Protocol[P_contra, R_co]):
    """Carries out effects of one type; created once per process with its connections."""

    def __call__(self, params: P_contra, /) -> Awaitable[R_co]:
        """The outcome for the fact.

        Raises:
            EffectError: becomes a fact with an error.
        """
        ...


P = TypeVar("P", bound=ApiModel)
R = TypeVar("R", bound=ApiModel)
C = TypeVar("C", bound=Clients)


@dataclass(frozen=True, slots=True)
class EffectType(Generic[P, R, C]):
    """A sort of I/O that plans of one service ask for; its results come back as facts.

    Attributes:
        name: `Effect.kind` of those that it carries out, and the kind of their facts.
        params: all that a runner needs; never a secret value.
        result: the outcome in the fact.
        runner: makes the runner once per process.
        concurrency: how many run at the same time; types do not wait for each other.
        access: what they do at the Kubernetes API, if anything (FW-534).
    """

    name: str
    params: type[P]
    result: type[R]
    runner: Callable[[C], EffectRunner[P, R]]
    concurrency: int
    access: tuple[Access, ...] = ()

    def ask(self, key: str, params: P, not_before: datetime | None = None) -> Effect:
        """The effect of a plan; see `Effect`."""
        return Effect(self.name, key, to_json(params), not_before)

    def look_up(self, view: View, service: str, key: str) -> Lookup[Fact]:
        """The fact about this key; nothing is found until the effect ended once."""
        return get_fact(view, service, self.name, key)

    def result_of(self, fact: Fact | None) -> R | None:
        """What the fact holds; ``None`` after a failure, and without a fact."""
        return None if fact is None else fact.read(self.result)
