"""Volumes of weights, each with its artifact, how full it is and who uses it (FW-672). Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from aim_cli.cluster.refs import JsonObject, Ref, ref_of
from aim_cli.cluster.resources import AIM_ARTIFACT, CLAIM
from aim_cli.cluster.states import state_of
from aim_cli.console.signs import mark_of
from aim_cli.sizes import age, told_size
from aim_cli.why.holders import Holder


@dataclass(frozen=True, slots=True)
class Volume:
    """One claim; sizes in bytes.

    Attributes:
        artifact: that it was made for; it may be gone.
        used: what has arrived of the weights; ``None`` where the artifact does not tell.
        users: names of pods.
        kept: why it is not evicted; empty where nothing says so.
        last: when it was used last, as the artifact tells it.
    """

    claim: Ref
    artifact: Ref
    state: str
    requested: int
    used: int | None
    users: tuple[str, ...]
    kept: str
    last: str

    @property
    def mark(self) -> str:
        """The name of the sign for its state."""
        return mark_of(self.state)

    @property
    def share(self) -> float:
        """How full it is, in percent."""
        return min(100.0, 100 * (self.used or 0) / self.requested) if self.requested else 0.0

    @property
    def sizes(self) -> str:
        """In words: used of requested."""
        requested = told_size(self.requested)
        return requested if self.used is None else f"{told_size(self.used)} of {requested}"

    def unused_for(self, now: datetime) -> str:
        """How long ago it was used last."""
        return age(self.last, now)


ORDERS: Final[dict[str, Callable[[Volume], Any]]] = {
    "size": lambda one: -one.requested,
    "used": lambda one: -(one.used or 0),
    "users": lambda one: -len(one.users),
    # What was used long ago or never comes first: whoever looks for room looks there.
    "last": lambda one: one.last,
    "name": lambda _: "",
}
"""What a list can be sorted by; the largest is what one looks for first."""


def volumes(held: Iterable[Holder], artifacts: Iterable[JsonObject], words: str, order: str) -> list[Volume]:
    """The claims of artifacts, in an order of `ORDERS` (any other counts as ``size``), then by name."""
    by_ref = {ref_of(AIM_ARTIFACT, one): one for one in artifacts}
    found = [_volume(one, by_ref.get(Ref(AIM_ARTIFACT, one.namespace, one.artifact))) for one in held]
    first = ORDERS.get(order, ORDERS["size"])
    shown = (one for one in found if words in str(one.claim) or words in str(one.artifact))
    return sorted(shown, key=lambda one: (first(one), one.claim.namespace, one.claim.name))


def _volume(held: Holder, artifact: JsonObject | None) -> Volume:
    status = (artifact or {}).get("status") or {}
    return Volume(
        Ref(CLAIM, held.namespace, held.claim),
        Ref(AIM_ARTIFACT, held.namespace, held.artifact),
        "missing" if artifact is None else state_of(AIM_ARTIFACT, artifact),
        held.size,
        _used(status),
        held.users,
        held.kept or "nothing; it may be evicted",
        status.get("lastUsed") or "",
    )


def _used(status: JsonObject) -> int | None:
    downloaded = (status.get("progress") or {}).get("downloadedBytes")
    found = (
        downloaded if downloaded is not None or status.get("status") != "Ready" else status.get("discoveredSizeBytes")
    )
    return None if found is None else int(found)
