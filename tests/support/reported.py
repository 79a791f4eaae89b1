"""What is reported of a bad value: which values are bad, and whether one condition and one Event name the field."""

import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias

from support.bad_values import Field
from support.whole_platform import Pass

from controller_runtime import Event, EventType, JsonObject
from controller_runtime.reconcile.events import bundles, combined

_Judge: TypeAlias = Callable[[Any], bool]
_AMOUNT: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d{1,3})?", re.ASCII)


def _amount(value: Any) -> Decimal | None:
    """The number before the unit of a Kubernetes quantity."""
    found = _AMOUNT.fullmatch(str(value))
    return None if found is None else Decimal(found[1])


def _no_amount(value: Any) -> bool:
    amount = _amount(value)
    return amount is None or amount < 0


def _nothing(value: Any) -> bool:
    amount = _amount(value)
    return amount is None or amount <= 0


def _always(_: Any) -> bool:
    return True


def _given(value: Any) -> bool:
    return value is not None


def _nowhere(uri: Any) -> bool:
    scheme, rest = str(uri).split("://", 1)
    return not rest.replace("/", "") or (scheme == "hf" and not _REPOSITORY.fullmatch(rest))


_REPOSITORY: Final = re.compile(r"[\w.-]+(/[\w.-]+)?([@:]\w.*)?/*", re.ASCII)


_JUDGED: Final[tuple[tuple[str, _Judge | None], ...]] = (
    # A bad adapter takes nothing from the service (LA-033).
    (r"spec\.adapters.*", None),
    (r"hardware\.cpu\.requests", _nothing),
    (r"hardware\.(cpu\.limits|gpu\.minVram)|size", _no_amount),
    (r"artifactStorageQuota\.(clusterLimit|defaultNamespaceLimit)", _no_amount),
    (r"sourceUri", _nowhere),
    # No container can ask for a resource of that name, whatever the amount.
    (r"resources\.(limits|requests)\.key", _always),
    (r"resources\.(limits|requests)", None),
    # These spellings are not read, whatever they hold (CC-352).
    (r"spec\.(profileCopy|derivedFrom)", _given),
    # What leads to no profile is no bad value (PR-047).
    (r"spec\.(profile|profileOverrides|profiles)(\..*)?", None),
    (r"pvcHeadroomPercent", None),
    (r"(min|max)?[rR]eplicas|syncInterval|requestTimeout|pathTemplate|labelPropagation\.match\.0", None),
    (r"image|model\.name|customTemplates\.0\.name", None),
    # A metric needs members that the smallest one which the schema takes lacks.
    (r"autoScaling\.metrics.*", None),
)
"""Fields whose values somebody judges, and how, where that is said in a line; everything else is good as it is."""


def expected(field: Field) -> _Judge | None:
    """Whether a value that the schema takes is bad; ``None`` for a field whose own tests say it."""
    for pattern, judge in _JUDGED:
        if re.fullmatch(rf"(.*\.)?({pattern})", repr(field)):
            return judge
    return lambda _: False


def is_judged(field: Field) -> bool:
    """Whether somebody finds values of this field bad."""
    return any(re.fullmatch(rf"(.*\.)?({pattern})", repr(field)) for pattern, _ in _JUDGED)


def invalid_spec(one: Pass) -> str | None:
    """What a pass says against a spec."""
    conditions: Iterable[JsonObject] = (one.plan.status or {}).get("conditions", ())
    found = [one for one in conditions if one["type"] == "ConfigValid" and one["reason"] == "InvalidSpec"]
    return str(found[0]["message"]) if found else None


def assert_reported_once(passes: Sequence[Pass], field: Field) -> None:
    """The condition names the field, or what it is in; one Event of one of the services says the same."""
    message = invalid_spec(passes[0])
    assert message is not None
    assert any(place in message for place in _places(field)), f"{message!r} does not name {field}"
    events = [event for one in passes for event in map(combined, bundles(one.plan.events))]
    assert [event.message for event in events if _is_news(event)] == [message], f"{field} is told of by {events}"


def _is_news(event: Event) -> bool:
    return event.type is EventType.WARNING and not event.standing


def _places(field: Field) -> list[str]:
    """The path as Kubernetes writes it, and what holds it; the whole spec is no answer."""
    text, found = "", list[str]()
    for step in field.path:
        text += f"[{step}]" if isinstance(step, int) or step == "key" else f".{step}" if text else step
        found.append(text)
    return found[1:]
