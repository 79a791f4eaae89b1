"""Somebody else writes what the platform writes, each time: nobody writes without end, and who it is is told."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from matrix.case import Case, Outcome, Scenario
from matrix.site import NAMESPACE, Site

from controller_runtime import JsonObject
from controller_runtime.reconcile.fights import FIELD_CONFLICT

_Revert: TypeAlias = Callable[[Site, JsonObject], Awaitable[bool]]
"""Undoes what the platform made of a child; false when nothing was to be undone."""
MANAGER: Final = "matrix-self-heal"
SECONDS: Final = 30.0
"""How long somebody fights."""
MOST: Final = 9
"""Reverts in that time: two are answered at once, the others after 2, 4, 8 and 16 s; some slack for a lagging cache."""
_ENDED: Final = 150.0
"""Until it is forgotten: the wait that is under way, at most 32 s, then a quiet minute."""


async def _timeouts(site: Site, route: JsonObject) -> bool:
    rules = route["spec"]["rules"]
    if (rules[0].get("timeouts") or {}).get("request") == "7s":
        return False
    rules = [{**rules[0], "timeouts": {"request": "7s"}}, *rules[1:]]
    await site.api.merge(_path(route), {"spec": {"rules": rules}}, fieldManager=MANAGER)
    return True


async def _replicas(site: Site, workload: JsonObject) -> bool:
    if workload["spec"]["predictor"].get("minReplicas") == 7:
        return False
    await site.api.merge(_path(workload), {"spec": {"predictor": {"minReplicas": 7}}}, fieldManager=MANAGER)
    return True


async def _deletion(site: Site, route: JsonObject) -> bool:
    await site.api.delete(_path(route))
    return True


def _path(obj: JsonObject) -> str:
    plural = f"{obj['kind'].lower()}s"
    return f"/apis/{obj['apiVersion']}/namespaces/{NAMESPACE}/{plural}/{obj['metadata']['name']}"


def _child(site: Site, kind: str) -> JsonObject | None:
    """The child of the story's service `chat`."""
    found = (obj for obj in site.story() if obj["kind"] == kind and obj["metadata"].get("ownerReferences"))
    return next((obj for obj in found if obj["metadata"]["ownerReferences"][0]["name"] == "chat"), None)


async def _fought(kind: str, revert: _Revert, name: str, site: Site, chance: random.Random) -> Outcome:
    outcome = Outcome(compared=len(site.expected))
    await site.tell()
    outcome.differences = await site.converged()
    elsewhere = asyncio.create_task(_change_another(site, chance))
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        seen = _child(site, kind)
        answer = await site.api.get(_path(seen)) if seen is not None else None
        if answer is not None and answer.status == 200:
            outcome.injected[name] += await revert(site, answer.body)
        await asyncio.sleep(0.1)
    outcome.differences += await elsewhere
    obj = (await site.api.get(site.service_path("chat"))).body
    events = (await site.api.get(f"/api/v1/namespaces/{NAMESPACE}/events")).body["items"]
    outcome.differences += judged(outcome.injected[name], obj, events, MANAGER if revert is not _deletion else "")
    begun = time.monotonic()
    outcome.differences += await site.converged(_ENDED)
    outcome.notes["seconds until it is forgotten"] = time.monotonic() - begun
    return outcome


async def _change_another(site: Site, chance: random.Random) -> list[str]:
    """Another service is changed meanwhile."""
    await asyncio.sleep(chance.uniform(5, 10))
    found = []
    for replicas in (3, 2):
        await site.api.merge(site.service_path("own"), {"spec": {"replicas": replicas}})
        if not await site.mirror.until(partial(site.asked_for, "own", replicas), 20 * site.patience):
            found.append(f"another service does not get its {replicas} replicas")
    return found


def judged(reverts: int, obj: JsonObject, events: Sequence[JsonObject], manager: str) -> list[str]:
    """Whether it was slowed down, and told by one condition and one Event. Pure."""
    found = [f"reverted {reverts} times in {SECONDS:g} s"] if reverts > MOST else []
    conditions = (obj.get("status") or {}).get("conditions") or ()
    reported = [one for one in conditions if one["reason"] == FIELD_CONFLICT and one["status"] == "False"]
    if len(reported) != 1 or manager not in reported[0]["message"]:
        found.append(f"not one condition that names {manager or 'the deletion'}: {reported}")
    of_it = (one for one in events if one["reason"] == FIELD_CONFLICT and one["involvedObject"]["name"] == "chat")
    if (count := sum(one.get("count", 1) for one in of_it)) != 1:
        found.append(f"{count} Events of one fight")
    return found


def _cases() -> Sequence[Case]:
    fights: dict[str, tuple[str, _Revert]] = {
        "timeouts": ("HTTPRoute", _timeouts),
        "replicas": ("InferenceService", _replicas),
        "deletion": ("HTTPRoute", _deletion),
    }
    return [
        Case("R13", name, partial(_fought, kind, revert, f"revert: {name}")) for name, (kind, revert) in fights.items()
    ]


SCENARIO: Final = Scenario("R13", "fights", "reverts, condition, Event, final objects", _cases)
