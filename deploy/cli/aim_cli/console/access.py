"""What a viewer may see: what the API server would let them list (FW-633).

The event log spans all tenants, so nothing of it is shown that its reader could not list by kubectl.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, TypeAlias

from aim_cli.cluster.refs import JsonObject
from aim_cli.cluster.resources import Resource

REMEMBERED_SECONDS: Final = 60.0
"""How long somebody may see what they may see no more."""
_DENIED_SECONDS: Final = 300.0
"""How long somebody waits for what they may see since: most questions about a viewer of few namespaces end with no."""
_AT_ONCE: Final = 8
_EVER: Final = datetime.min.replace(tzinfo=UTC)

Review: TypeAlias = Callable[[JsonObject], Awaitable[JsonObject]]
"""Has the API server answer a SelfSubjectAccessReview, or the same about somebody else."""


@dataclass(frozen=True, slots=True)
class Rights:
    """Which objects may be seen.

    Attributes:
        everywhere: kinds that may be listed in the whole cluster, as ``plural.group``.
        within: kinds that may be listed in a namespace.
        made: when the namespaces of today were made, as far as that is known.
    """

    everywhere: frozenset[str] = frozenset()
    within: frozenset[tuple[str, str]] = frozenset()
    made: Mapping[str, datetime] = field(default_factory=dict)

    def admits(self, kind: str, namespace: str) -> bool:
        """Whether objects of a kind may be seen; in the cluster's scope without a namespace."""
        return kind in self.everywhere or (bool(namespace) and (kind, namespace) in self.within)

    def since(self, kind: str, namespace: str) -> datetime | None:
        """From when on the past of these objects may be seen; ``None`` = nothing of it.

        The log goes by names, and who has a namespace today need not be who had one of that name before.
        """
        if kind in self.everywhere:
            return _EVER
        return self.made.get(namespace) if self.admits(kind, namespace) else None

    def admitted(self, kind: str, namespace: str, at: datetime) -> bool:
        """Whether it may be seen how objects of a kind were at a moment."""
        since = self.since(kind, namespace)
        return since is not None and since <= at

    def then(self, at: datetime) -> "Rights":
        """What may be seen of a moment."""
        return replace(self, within=frozenset(one for one in self.within if self.admitted(*one, at)))


@dataclass(slots=True)
class Access:
    """Asks about one viewer, and remembers a yes for a minute, a no for five."""

    review: Review
    clock: Callable[[], float] = time.monotonic
    _known: dict[tuple[str, str], tuple[bool, float]] = field(default_factory=dict)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def rights(self, kinds: Collection[Resource], namespaces: Iterable[str]) -> Rights:
        """What may be seen of some kinds.

        Raises:
            KubeError: the API server does not answer.
        """
        # One request of a viewer at a time, so that no two ask the same.
        async with self._asking:
            everywhere = await self._allowed([(kind, "") for kind in kinds])
            rest = [kind for kind in kinds if kind.namespaced and (kind.resource, "") not in everywhere]
            within = await self._allowed([(kind, one) for one in namespaces for kind in rest])
        return Rights(frozenset(name for name, _ in everywhere), frozenset(within))

    async def _allowed(self, questions: Collection[tuple[Resource, str]]) -> set[tuple[str, str]]:
        now = self.clock()
        # What no longer counts is of namespaces that are gone, or is asked anew.
        self._known = {what: one for what, one in self._known.items() if now < one[1]}
        unknown = [(kind, namespace) for kind, namespace in questions if (kind.resource, namespace) not in self._known]
        await asyncio.gather(*(self._ask(kind, namespace) for kind, namespace in unknown))
        asked = {(kind.resource, namespace) for kind, namespace in questions}
        return {one for one in asked if self._known[one][0]}

    async def _ask(self, kind: Resource, namespace: str) -> None:
        async with self._turns:
            answer = await self.review(question(kind, namespace))
        allowed = bool((answer.get("status") or {}).get("allowed"))
        remembered = REMEMBERED_SECONDS if allowed else _DENIED_SECONDS
        self._known[kind.resource, namespace] = (allowed, self.clock() + remembered)


def question(kind: Resource, namespace: str) -> JsonObject:
    """Whether whoever asks may list a kind, in a namespace or everywhere."""
    what = {"verb": "list", "group": kind.group, "resource": kind.plural, "namespace": namespace}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "metadata": {},
        "spec": {"resourceAttributes": {name: value for name, value in what.items() if value}},
    }
