"""Reading streams: the last message of every subject."""

from collections.abc import Callable, Sequence
from typing import Final

import structlog

from controller_runtime.bus.connection import BusConnection
from controller_runtime.bus.delivery import deliver
from controller_runtime.bus.envelope import Logged
from controller_runtime.bus.errors import BusUnavailableError
from controller_runtime.bus.in_order import DeliveryLostError
from controller_runtime.bus.part import Key
from controller_runtime.bus.stored import StoredMessage
from controller_runtime.bus.subjects import Layout, SubjectError

_log = structlog.get_logger(__name__)

_HEARTBEAT_SECONDS: Final = 1.0
_SUBJECTS: Final = 256
"""Subjects of one consumer. The broker compares each with each when it is made."""


async def read_last(
    connection: BusConnection,
    stream: str,
    subjects: tuple[str, ...],
    take: Callable[[StoredMessage], None],
    *,
    headers_only: bool = False,
) -> None:
    """Hand on the last message of every subject that matches, in order of their sequences; none of them is kept.

    Messages that arrive meanwhile may or may not be among them.

    Raises:
        BusUnavailableError: the broker fell silent; what was handed on counts for nothing then, because half a
            snapshot would read as deletions.
        BusApiError: the broker refused the consumer.
    """
    policy = {"deliver_policy": "last_per_subject", "headers_only": headers_only}
    try:
        async with deliver(connection, stream, subjects, policy, _HEARTBEAT_SECONDS) as delivery:
            async for delivered in delivery.ready():
                message, position = delivered.message, delivered.position
                take(
                    StoredMessage(
                        message.subject, position.stream_sequence, position.stored, message.headers, message.data
                    )
                )
    except DeliveryLostError as error:
        raise BusUnavailableError(f"{stream}: the snapshot is incomplete: {error}") from error


async def last_per_subject(
    connection: BusConnection, stream: str, subjects: tuple[str, ...], *, headers_only: bool = False
) -> list[StoredMessage]:
    """The last message of every subject that matches, where they are few; see `read_last`."""
    found: list[StoredMessage] = []
    await read_last(connection, stream, subjects, found.append, headers_only=headers_only)
    return found


Present = Callable[[Key, StoredMessage], None]
"""Is told of a present version: its object and its message."""

LastLogged = Callable[[str, int, Logged], None]
"""Is told of the last version of an object in the history: its subject and its sequence there."""


async def read_present(
    connection: BusConnection, layout: Layout, part: str, service: str, take: Present, *, headers_only: bool = False
) -> int:
    """Hand on everything that the state stream holds of a part (or of the facts of one service), with tombstones.

    Returns how many messages were left out because no publisher of ours writes to their subjects, as every reader
    leaves them out.

    Raises:
        BusUnavailableError: the broker fell silent; what was handed on counts for nothing then.
        BusApiError: the broker refused.
    """
    foreign = 0

    def present(message: StoredMessage) -> None:
        nonlocal foreign
        key = _key_of(layout, part, message.subject)
        if key is None:
            foreign += 1
        else:
            take(key, message)

    subjects = (layout.state_filter(part, service),)
    await read_last(connection, layout.state_stream, subjects, present, headers_only=headers_only)
    return foreign


async def read_logged(connection: BusConnection, layout: Layout, subjects: Sequence[str], take: LastLogged) -> None:
    """Hand on the last version in the history of every object whose subject matches; whoever listens should keep none.

    Args:
        subjects: any number; of many the broker is asked piece by piece.

    Raises:
        BusUnavailableError: the broker fell silent; what was handed on counts for nothing then.
        BusApiError: the broker refused.
    """

    def log(message: StoredMessage) -> None:
        take(message.subject, message.sequence, Logged.of(message.headers))

    for begin in range(0, len(subjects), _SUBJECTS):
        some = tuple(subjects[begin : begin + _SUBJECTS])
        await read_last(connection, layout.history_stream, some, log, headers_only=True)


def _key_of(layout: Layout, part: str, subject: str) -> Key | None:
    try:
        _, key = layout.parse_state(subject)
    except SubjectError as error:
        _log.warning("skipped a message that no publisher wrote", error=str(error))
        return None
    if layout.state(part, key) != subject:
        _log.warning("skipped a message on another spelling of an object's subject", subject=subject, object=str(key))
        return None
    return key
