"""Which claims pods mount, read live before an eviction (AR-480)."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from aim_artifacts import SERVICE_NAME
from controller_runtime import FACTS, ApiModel, Effect, Fact, Items, View, get_fact

MOUNTED_CLAIMS: Final = "mounted-claims"
"""Effect: the claims that the pods of a namespace mount. Its key is the namespace: one reading serves all who ask."""
_FRESH: Final = timedelta(seconds=10)
"""How long a reading stands for what is."""
_AGAIN: Final = timedelta(seconds=60)
"""How often it is read again whether a foreign pod still mounts a chosen claim."""
_FAILED_AGAIN: Final = timedelta(seconds=10)


class MountedClaims(ApiModel):
    """What a reading found: names of the claims that pods mount which have not ended."""

    claims: Items[str] = ()


def last_mounted(view: View, namespace: str) -> frozenset[str]:
    """The claims that the last reading found mounted, however long ago it was."""
    fact = _fact(view, namespace)
    found = None if fact is None else fact.read(MountedClaims)
    return frozenset() if found is None else frozenset(found.claims)


def readings_due(view: View, namespaces: Iterable[str], now: datetime) -> tuple[Effect, ...]:
    """Readings that an eviction in these namespaces needs now; nothing when all of them are fresh."""
    effects = []
    for namespace in sorted(set(namespaces)):
        fact = _fact(view, namespace)
        if fact is None or fact.outcome is None or not now - _FRESH < fact.observed_at <= now + _FRESH:
            failed = fact is not None and fact.outcome is None
            effects.append(_reading(namespace, fact.observed_at + _FAILED_AGAIN if fact and failed else None))
    return tuple(effects)


def later_readings(view: View, namespaces: Iterable[str]) -> tuple[Effect, ...]:
    """Readings that tell when a pod of others lets go of an artifact: no watch does."""
    facts = ((namespace, _fact(view, namespace)) for namespace in sorted(set(namespaces)))
    return tuple(_reading(namespace, None if fact is None else fact.observed_at + _AGAIN) for namespace, fact in facts)


def unread(view: View, namespaces: Iterable[str]) -> str:
    """Why pods cannot be listed, for people; empty while nothing is wrong."""
    facts = (_fact(view, namespace) for namespace in sorted(set(namespaces)))
    return next((fact.error.message for fact in facts if fact is not None and fact.error is not None), "")


def _reading(namespace: str, not_before: datetime | None) -> Effect:
    return Effect(MOUNTED_CLAIMS, namespace, {"namespace": namespace}, not_before)


def _fact(view: View, namespace: str) -> Fact | None:
    return get_fact(view, FACTS, SERVICE_NAME, MOUNTED_CLAIMS, namespace).value
