"""A pass as spans: the way of the change that woke it, what else it waited for, and the pass (FW-573…FW-575).

The span of the way begins when the version was published and ends when the pass begins, so it holds the hop over the
broker and the time in the queue. It is the parent of the pass: so the tree of a trace tells what brought what.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from opentelemetry.trace import Span, SpanKind

from controller_runtime.bus.entry import Change, Entry
from controller_runtime.telemetry import tracing

MOST_ORIGINS: Final = 8
"""Changes that are remembered of an object between two passes; more tell nothing further."""


class Origin(NamedTuple):
    """A change that woke an object.

    Attributes:
        what: in words.
        part: of the object that changed.
        traceparent: the context that the change belongs to.
        published: when it was put onto the bus, in seconds since 1970; 0 if it did not come over it.
    """

    what: str
    part: str
    traceparent: str
    published: float

    @classmethod
    def of(cls, change: Change[Any], what: str) -> "Origin | None":
        """That of a change; ``None`` where its trace is not exported."""
        entry = change.new or change.old
        if entry is None or entry.traceparent is None or not tracing.is_sampled(entry.traceparent):
            return None
        # When an object went is not known: its last version was published long before.
        published = entry.published if change.new is not None else 0.0
        return cls(what, change.part.name, entry.traceparent, published)


@dataclass(frozen=True, slots=True)
class Wait:
    """Why the last pass left an object for later.

    Attributes:
        since: when, in seconds since 1970.
    """

    why: str
    since: float


def pass_span(
    controller: str, entry: Entry[Any], origins: Sequence[Origin], wait: Wait | None
) -> AbstractContextManager[Span]:
    """The span that a pass runs in."""
    own = entry.traceparent
    if own is None or not tracing.is_sampled(own):
        return tracing.span("", own)
    return _exported(controller, entry, own, origins, wait)


@contextmanager
def _exported(
    controller: str, entry: Entry[Any], own: str, origins: Sequence[Origin], wait: Wait | None
) -> Iterator[Span]:
    parent = _followed(own, origins, wait)
    about = tracing.about_object(entry.part.kind.kind, entry.key.namespace, entry.key.name, entry.version.uid)
    shared = tuple({one.traceparent for one in origins if not _is_of(own, one)})
    with tracing.span(f"reconcile {controller}", parent, about, links=shared) as current:
        yield current


def _followed(own: str, origins: Sequence[Origin], wait: Wait | None) -> str | None:
    """The context of what the pass follows upon: the first change that woke it, or the end of a wait."""
    if not origins:
        return own if wait is None else tracing.past("wait", own, wait.since, {"aim.wait.for": wait.why})
    first = origins[0]
    before = first.traceparent if _is_of(own, first) else own
    if not first.published:
        return before
    subject = f"aim.state.{first.part}"
    return tracing.past(
        f"process {subject}",
        before,
        first.published,
        {**tracing.messaging("process", subject), "aim.change": first.what},
        kind=SpanKind.CONSUMER,
        # What other traces have part in stays in its own, and is named (FW-575).
        links=() if before is first.traceparent else (first.traceparent,),
    )


def _is_of(own: str, origin: Origin) -> bool:
    """Whether a change belongs to the trace of the object itself."""
    return own.split("-")[1] == origin.traceparent.split("-")[1]


def waits_from_now(why: str) -> Wait | None:
    """A wait that begins; ``None`` where nobody looks at it."""
    return Wait(why, time.time()) if tracing.is_exporting() else None
