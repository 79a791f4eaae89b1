"""Versions of objects as the history tells them, without a broker."""

from datetime import UTC, datetime

from controller_runtime import Key
from controller_runtime.log.history.versions import LoggedVersion
from controller_runtime.log.wire.messages import StateMessage, Verb

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def version_of(
    part: str,
    key: Key,
    body: bytes,
    *,
    sequence: int,
    previous: int = 0,
    verb: Verb = Verb.UPSERT,
    epoch: str = "e1",
    uid: str = "u",
    resource_version: str = "",
    time: datetime = NOON,
) -> LoggedVersion:
    """A version as the history holds it; a deletion has no body."""
    state = StateMessage(
        part=part,
        key=key,
        verb=verb,
        epoch=epoch,
        store_id=epoch,
        uid=uid,
        resource_version=resource_version,
        previous=previous,
        body=b"" if verb is Verb.DELETE else body,
        traceparent="",
        time=time,
        source="tester",
        id=f"{epoch}/{uid}/{sequence}",
    )
    return LoggedVersion(state, sequence)
