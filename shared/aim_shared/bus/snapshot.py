"""Reading streams: the last message of every subject."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from aim_shared.bus.connection import BusConnection, BusUnavailableError
from aim_shared.bus.delivery import DeliveryLostError, deliver
from aim_shared.bus.part import Key
from aim_shared.bus.stored import StoredMessage
from aim_shared.bus.subjects import Layout, SubjectError

log = structlog.get_logger(__name__)

_HEARTBEAT_SECONDS: Final = 1.0


async def last_per_subject(
    connection: BusConnection, stream: str, subjects: tuple[str, ...], *, headers_only: bool = False
) -> list[StoredMessage]:
    """The last message of every subject that matches, in order of their sequences.

    Messages that arrive meanwhile may or may not be among them.

    Raises:
        BusUnavailableError: the broker fell silent; nothing is returned then, because half a snapshot would read as
            deletions.
        BusApiError: the broker refused the consumer.
    """
    policy = {"deliver_policy": "last_per_subject", "headers_only": headers_only}
    found: list[StoredMessage] = []
    try:
        async with deliver(connection, stream, subjects, policy, _HEARTBEAT_SECONDS) as delivery:
            async for delivered in delivery.ready():
                message, position = delivered.message, delivered.position
                found.append(
                    StoredMessage(
                        message.subject, position.stream_sequence, position.stored, message.headers, message.data
                    )
                )
    except DeliveryLostError as error:
        raise BusUnavailableError(f"{stream}: the snapshot is incomplete: {error}") from error
    return found


@dataclass(frozen=True, slots=True)
class PresentMessage:
    """A present version of a part, and the headers of its subject's last version in the history."""

    key: Key
    message: StoredMessage
    logged: Mapping[str, str]


async def read_present(
    connection: BusConnection, layout: Layout, part: str, service: str = ""
) -> tuple[list[PresentMessage], int]:
    """Everything that the state stream holds of a part (or of the facts of one service), tombstones included.

    Returns also how many messages were left out because no publisher of ours writes to their subjects, as every reader
    leaves them out.

    Raises:
        BusUnavailableError: the broker fell silent.
        BusApiError: the broker refused.
    """
    held = await last_per_subject(connection, layout.state_stream, (layout.state_filter(part, service),))
    past = await last_per_subject(
        connection, layout.history_stream, (layout.log_filter(part, service),), headers_only=True
    )
    logged = {message.subject: message.headers for message in past}
    present = [
        PresentMessage(key, message, logged.get(layout.log(part, key), {}))
        for message in held
        if (key := _key_of(layout, part, message.subject)) is not None
    ]
    return present, len(held) - len(present)


def _key_of(layout: Layout, part: str, subject: str) -> Key | None:
    try:
        _, key = layout.parse_state(subject)
    except SubjectError as error:
        log.warning("Left out a message that no publisher wrote", error=str(error))
        return None
    if layout.state(part, key) != subject:
        log.warning("Left out a message on a second spelling of an object's subject", subject=subject, object=str(key))
        return None
    return key
