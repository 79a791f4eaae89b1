"""Faults on demand: rules that say which requests go wrong and how; deciding is pure, see `injection` for the doing."""

import random
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class _Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


class Phase(StrEnum):
    """Whether the request takes effect before it goes wrong."""

    BEFORE = "before"
    AFTER = "after"


class Latency(_Model):
    """The request waits first: `seconds`, and up to `jitter_seconds` more."""

    kind: Literal["latency"] = "latency"
    seconds: float = Field(ge=0)
    jitter_seconds: float = Field(default=0.0, ge=0)


class Refusal(_Model):
    """The answer is an error Status; with phase `after`, of a request that took effect (a 504, mostly)."""

    kind: Literal["error"] = "error"
    code: Literal[400, 401, 403, 404, 409, 410, 429, 500, 502, 503, 504]
    retry_after_seconds: int = Field(default=0, ge=0)
    message: str = "injected fault"
    phase: Phase = Phase.BEFORE


class Reset(_Model):
    """The connection breaks; a watch or another stream does so after `chunks` pieces were delivered."""

    kind: Literal["reset"] = "reset"
    phase: Phase = Phase.BEFORE
    chunks: int = Field(default=0, ge=0)


class Silence(_Model):
    """A half-open stream: after `chunks` pieces nothing comes any more, and the connection stays."""

    kind: Literal["silence"] = "silence"
    chunks: int = Field(default=0, ge=0)


class Stale(_Model):
    """Gets and lists show a former state: that of `revision`, or of the moment when the rule was made."""

    kind: Literal["stale"] = "stale"
    revision: int | None = Field(default=None, gt=0)


class Crash(_Model):
    """The server dies without answering anybody, and comes back on the same port after `down_seconds`.

    With `keep_store` it comes back with all objects, as a real one does whose etcd lives on; without, as new.
    """

    kind: Literal["crash"] = "crash"
    phase: Phase = Phase.AFTER
    down_seconds: float = Field(default=0.2, ge=0)
    keep_store: bool = True


Fault: TypeAlias = Annotated[Latency | Refusal | Reset | Silence | Stale | Crash, Field(discriminator="kind")]


class FaultRule(_Model):
    """Which requests go wrong, how often, and how.

    Attributes:
        verbs: get, list, watch, create, update, patch, apply, delete, deletecollection; none given = any, `write` = all
            that change something.
        resources: `plural` or `plural.group`; none given = any.
        subresource: such as `status`; "" = the objects themselves, None = either.
        namespace: of the object or collection; "" = any.
        name: of the object; "" = any.
        user_agent: how the client's product name begins.
        skip: how many matching requests pass first. A crash after the k-th write skips k - 1.
        every: of the others, only every so many-th goes wrong.
        times: how often the rule strikes at most; None = without end.
        probability: of the requests that are left, which share goes wrong.
    """

    verbs: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    subresource: str | None = None
    namespace: str = ""
    name: str = ""
    user_agent: str = ""
    skip: int = Field(default=0, ge=0)
    every: int = Field(default=1, ge=1)
    times: int | None = Field(default=None, ge=1)
    probability: float = Field(default=1.0, gt=0, le=1)
    fault: Fault

    def covers(self, subject: "Subject") -> bool:
        """Whether the rule is about such requests."""
        return (
            (not self.verbs or bool(self.verbs & subject.verbs))
            and (not self.resources or subject.resource in self.resources)
            and self.subresource in (None, subject.subresource)
            and self.namespace in ("", subject.namespace)
            and self.name in ("", subject.name)
            and subject.user_agent.startswith(self.user_agent)
        )


def pinned(rule: FaultRule, revision: int) -> FaultRule:
    """The rule with the present revision where it shows a former state and names none."""
    if isinstance(rule.fault, Stale) and rule.fault.revision is None:
        return rule.model_copy(update={"fault": Stale(revision=revision)})
    return rule


@dataclass(frozen=True, slots=True)
class Subject:
    """A request as rules see it; `verbs` are all names that its verb goes by."""

    verbs: frozenset[str]
    resource: str
    subresource: str
    namespace: str
    name: str
    user_agent: str


@dataclass(slots=True)
class Armed:
    """A rule at work. `matched` requests were covered by it, `struck` of them went wrong."""

    id: int
    rule: FaultRule
    matched: int = 0
    struck: int = 0

    def strikes(self, chance: random.Random) -> bool:
        """Whether the next covered request goes wrong; counts it."""
        rule = self.rule
        turn = self.matched - rule.skip
        self.matched += 1
        if turn < 0 or (turn + 1) % rule.every or (rule.times is not None and self.struck >= rule.times):
            return False
        if rule.probability < 1 and chance.random() >= rule.probability:
            return False
        self.struck += 1
        return True


@dataclass(slots=True)
class Faults:
    """The rules at work; none at the start. `seed` makes chance repeatable."""

    seed: int = 0
    armed: list[Armed] = field(default_factory=list)
    _last: int = 0
    _chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        """Begin at the seed."""
        self._chance = random.Random(self.seed)

    def add(self, rule: FaultRule) -> Armed:
        """Put a rule to work; of several that cover a request all that strike take effect, in this order."""
        self._last += 1
        armed = Armed(self._last, rule)
        self.armed.append(armed)
        return armed

    def remove(self, id_: int | None = None) -> None:
        """End one rule, or all."""
        self.armed = [one for one in self.armed if id_ is not None and one.id != id_]

    def due(self, subject: Subject) -> list[Fault]:
        """What goes wrong with a request; counts it."""
        return [one.rule.fault for one in self.armed if one.rule.covers(subject) and one.strikes(self._chance)]

    def delay(self, fault: Latency) -> float:
        """How long a request waits, in seconds."""
        return fault.seconds + self._chance.random() * fault.jitter_seconds
