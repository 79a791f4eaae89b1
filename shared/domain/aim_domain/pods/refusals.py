"""Who refuses a pod or a volume before there is one, in their own words (AR-844, AR-845, DI-391, SV-321). Pure.

A quota, a LimitRange, an admission webhook and a missing ServiceAccount refuse the creation of a pod: no pod then says
so, but the Events of what would make it. A provisioner says on the claim why there is no volume.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from controller_runtime import Component, EventType, Resource, State
from controller_runtime.core import Event

FAILED_CREATE: Final = "FailedCreate"
_CREATED: Final = frozenset({"SuccessfulCreate", "Resumed"})
_HELD: Final = frozenset({FAILED_CREATE, "Suspended"})
_COMBINED: Final = "(combined from similar events): "
_PODS: Final = 'pods "'
_SUFFIX: Final = 5
"""Characters that Kubernetes adds to the name of a pod."""
_REMEDY: Final = "correct what it names, or set {block} of the runtime config"


def refused_pods(events: Iterable[Event], owner: Resource) -> Event | None:
    """The Event that says why the owner makes no pod; `None` where it has made one since, or none says so."""
    return _newest(events, owner.uid, _HELD, _CREATED)


def refused_volume(events: Iterable[Event], claim: Resource) -> Event | None:
    """The Warning of the provisioner or the volume binder why a claim has no volume."""
    own = [event for event in events if event.involved_object.uid == claim.uid]
    troubles = {event.reason for event in own if event.type is EventType.WARNING}
    return _newest(own, claim.uid, troubles, {"ProvisioningSucceeded"})


def _newest(events: Iterable[Event], uid: str, wanted: Iterable[str], ending: Iterable[str]) -> Event | None:
    reasons, ends = frozenset(wanted), frozenset(ending)
    own = [event for event in events if event.involved_object.uid == uid and event.reason in reasons | ends]
    last = max(own, key=lambda event: (str(event.last_seen or ""), event.reason in reasons), default=None)
    return last if last is not None and last.reason in reasons else None


def refused_component(name: str, what: str, event: Event, *, block: str) -> Component:
    """A component that waits for what the Event names.

    Args:
        what: kind and name of what makes the pod.
        block: of the runtime config, with the settings of such pods.
    """
    held = "is suspended" if event.reason == "Suspended" else "cannot create a pod"
    message = f"{what} {held}: {words_of(event)}; {_REMEDY.format(block=block)}"
    return Component(name, State.PENDING, event.reason, message)


def words_of(event: Event) -> str:
    """The message, without what differs from attempt to attempt: each would be another status."""
    text = event.message.strip().removeprefix(_COMBINED)
    before, found, after = text.partition(_PODS)
    name, quote, rest = after.partition('"')
    if not found or not quote:
        return text
    stem, dash, suffix = name.rpartition("-")
    is_made = bool(dash) and len(suffix) == _SUFFIX and suffix.isalnum()
    return f"{before}{found}{stem if is_made else name}{quote}{rest}"


def newest_refusal(events: Sequence[Event], prefix: str) -> Event | None:
    """The newest `FailedCreate` of those ReplicaSets whose names begin so (SV-321)."""
    own = [event for event in events if event.reason == FAILED_CREATE and event.involved_object.name.startswith(prefix)]
    return max(own, key=lambda event: str(event.last_seen or ""), default=None)
