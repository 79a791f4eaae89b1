"""A consumer whose deliveries are complete or end with an error, and the last message of every subject by one."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Final, NamedTuple

import structlog

from controller_runtime.json import JsonObject, dumps
from controller_runtime.log.broker.address import BusError, BusUnavailableError
from controller_runtime.log.broker.connection import BusConnection, Message
from controller_runtime.log.broker.reading import DeliveryLostError, DeliveryPosition, InOrder, StoredMessage
from controller_runtime.log.wire.messages import Logged
from controller_runtime.log.wire.part import Key
from controller_runtime.log.wire.subjects import Layout, SubjectError
from controller_runtime.tasks import within

HEARTBEAT_SECONDS: Final = 2.0
"""How often an idle consumer tells that it is alive."""

_MISSED_HEARTBEATS: Final = 2.5
_IDLE_HEARTBEATS: Final = 5
_OVERTAKEN_SECONDS: Final = 1.0
"""How long one that was overtaken may take: longer, and everything would wait for what may never come (FW-540)."""
_INACTIVE_SECONDS: Final = 10
_NANOSECONDS: Final = 1_000_000_000
_BATCH: Final = 256
_BATCH_BYTES: Final = 128 << 10
"""What is taken in before everything else gets its turn (FW-493); one message may be larger."""
_WINDOW: Final = 2 * _BATCH
_WINDOW_BYTES: Final = 8 << 20
_FRAME: Final = 64 << 10
"""What subject, reply and headers may add to the largest body; they count as well."""
_REQUEST_SECONDS: Final = 30.0
"""After which the broker ends a request, and it is sent again."""
_HEARTBEAT, _EXPIRED, _CONFLICT, _NOBODY = "100", "408", "409", "503"
_TOO_SMALL, _COMPLETED = "exceeds maxbytes", "batch completed"
_INTRODUCTIONS: Final = 6
"""Requests to a consumer just made: one broker of a cluster makes it, another has not heard of it yet (FW-582)."""
_INTRODUCTION_SECONDS: Final = 0.05
_LAST_CONSUMER: Final = "Nats-Last-Consumer"


class Delivered(NamedTuple):
    """A message with its place in the stream and in the delivery."""

    message: Message
    position: DeliveryPosition


class Delivery:
    """What one consumer delivers. Made by `deliver`.

    Attributes:
        pending: messages that lay ready when the consumer was made; with 0, none may ever come.
    """

    def __init__(self, connection: BusConnection, stream: str, heartbeat: float) -> None:
        self.pending = 0
        self._connection = connection
        self._stream = stream
        self._consumer = ""
        self._inbox = ""
        self._heartbeat = heartbeat
        self._silence = heartbeat * _MISSED_HEARTBEATS
        self._window = max(_WINDOW_BYTES, connection.max_payload + 2 * _FRAME)
        self._room = 0
        self._wanted = 0
        self._answered = False
        self._requests = 0
        self._met = False
        self._arrived: deque[Message] = deque()
        self._wakeup = asyncio.Event()
        self._failure: str | None = None
        self._order = InOrder[Delivered]()
        self._missing_since: float | None = None

    async def batch(self) -> list[Delivered]:
        """What has arrived, in order, as much as may be taken in at once; empty after a heartbeat.

        Raises:
            DeliveryLostError: something stayed away, or nothing came for two and a half heartbeats (and nothing lay
                unread then: the broker is asked, which takes as long as a request may).
        """
        await self._until_wakeup()
        if self._failure is not None:
            raise DeliveryLostError(self._failure)
        before, batch = self._order.taken, list[Delivered]()
        enough = self._room - _BATCH_BYTES
        while self._arrived and len(batch) < _BATCH and self._room > enough:
            message = self._arrived.popleft()
            if message.status:
                self._control(message)
            else:
                batch += self._place(message)
        if not self._arrived:
            self._wakeup.clear()
        self._tolerate(progress=self._order.taken > before)
        if self._wanted <= 0 or self._room < _FRAME:
            if not self._met:
                await asyncio.sleep(self._requests * _INTRODUCTION_SECONDS)
            # The broker tells that a window is full only when the next message does not fit, and nothing at all when
            # the last one fits to the byte. So a little room is left unused; what may still come into it does no harm.
            try:
                await self._ask()
            except BusUnavailableError as error:
                raise DeliveryLostError(str(error)) from error
        return batch

    async def _until_wakeup(self) -> None:
        missing = self._missing_since
        patience = self._silence if missing is None else missing + _OVERTAKEN_SECONDS - monotonic()
        if await within(patience, self._wakeup.wait()):
            return
        # A process that was busy itself has not read what the broker sent meanwhile. The answer to a question comes
        # behind all of that, however busy it is; what was read before it is handed over in the next turn of the loop.
        with suppress(BusError):
            await self._fetched_info()
        await asyncio.sleep(0)
        if not self._wakeup.is_set() and missing is None:
            raise DeliveryLostError(f"the broker sent neither message nor heartbeat for {self._silence:g} s")

    async def ready(self) -> AsyncIterator[Delivered]:
        """Everything up to the end of what lies ready, in order.

        What lay ready may be removed or replaced before its turn, so that no message tells of the end: after a
        heartbeat the broker is asked.

        Raises:
            DeliveryLostError: as `batch` does, or messages lie ready and the broker does not deliver them.
            BusUnavailableError: no answer.
            BusApiError: the consumer is gone.
        """
        idle, complete = 0, self.pending == 0
        while not complete:
            batch = await self.batch()
            if not batch and self._order.missing:
                # What came waits for what it overtook; `batch` does not wait for that for ever.
                continue
            idle = 0 if batch else idle + 1
            for delivered in batch:
                yield delivered
            # Nothing here waits for as long as something lies ready.
            await asyncio.sleep(0)
            complete = batch[-1].position.pending == 0 if batch else await self._is_exhausted()
            if idle == _IDLE_HEARTBEATS and not complete:
                raise DeliveryLostError(f"the broker has delivered none of the pending messages for {idle} heartbeats")

    async def _is_exhausted(self) -> bool:
        reported = await self._fetched_info()
        return reported["num_pending"] == 0 and int(reported["delivered"]["consumer_seq"]) == self._order.taken

    async def _fetched_info(self) -> JsonObject:
        return await self._connection.api(f"CONSUMER.INFO.{self._stream}.{self._consumer}")

    async def _created(self, reported: JsonObject, inbox: str) -> None:
        self._consumer, self.pending, self._inbox = str(reported["name"]), int(reported["num_pending"]), inbox
        await self._ask()

    async def _ask(self) -> None:
        """Ask for one more window."""
        self._wanted, self._room, self._answered = _WINDOW, self._window, False
        self._requests += 1
        request = {
            "batch": _WINDOW,
            "max_bytes": self._window,
            "expires": int(max(_REQUEST_SECONDS, 3 * self._heartbeat) * _NANOSECONDS),
            "idle_heartbeat": int(self._heartbeat * _NANOSECONDS),
        }
        subject = self._connection.api_subject(f"CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}")
        await self._connection.send(subject, dumps(request), reply=self._reply)

    @property
    def _reply(self) -> str:
        """Where answers to the present request go; what comes to another one is about a request that is over."""
        return f"{self._inbox}.{self._requests}"

    def fail(self, reason: str) -> None:
        """Make the reader's next `batch` end with `DeliveryLostError`."""
        self._failure = self._failure or reason
        self._wakeup.set()

    async def _take(self, message: Message) -> None:
        self._arrived.append(message)
        self._wakeup.set()

    def _place(self, message: Message) -> list[Delivered]:
        try:
            position = DeliveryPosition.of(message.reply)
        except BusUnavailableError as error:
            raise DeliveryLostError(str(error)) from error
        self._answered = self._met = True
        found = self._order.take(Delivered(message, position))
        self._wanted -= len(found)
        self._room -= sum(one.message.size for one in found)
        return found

    def _tolerate(self, *, progress: bool) -> None:
        """Wait a little for what is missing; each arrival starts the wait again."""
        missing, now = self._order.missing, monotonic()
        if not missing:
            self._missing_since = None
        elif self._missing_since is None or progress:
            self._missing_since = now
        elif now - self._missing_since >= _OVERTAKEN_SECONDS and not self._arrived:
            # Not while something has arrived that is not taken in yet, which may be just that.
            raise DeliveryLostError(missing)

    def _control(self, message: Message) -> None:
        """A heartbeat, or the end of the request before all of it was delivered."""
        if message.status == _NOBODY and not self._met and self._requests < _INTRODUCTIONS:
            self._wanted = 0
            return
        self._met = True
        if message.status == _HEARTBEAT:
            delivered = message.headers.get(_LAST_CONSUMER, "")
            if delivered.isdecimal():
                self._order.report(int(delivered))
            return
        if message.subject != self._reply:
            return
        why = message.description.lower()
        too_small = message.status == _CONFLICT and _TOO_SMALL in why
        completed = message.status == _CONFLICT and _COMPLETED in why
        if not (too_small or completed or message.status == _EXPIRED):
            raise DeliveryLostError(f"the broker ended the consumer: {message.status} {message.description}")
        if too_small and not self._answered:
            # Stored when the broker took larger messages than today.
            self._window *= 2
        self._wanted = 0


@asynccontextmanager
async def deliver(
    connection: BusConnection,
    stream: str,
    subjects: tuple[str, ...],
    policy: JsonObject,
    heartbeat: float = HEARTBEAT_SECONDS,
) -> AsyncIterator[Delivery]:
    """Make a consumer and receive what it delivers; waits while many others of the connection are open.

    Args:
        policy: where to begin and how, such as ``{"deliver_policy": "last_per_subject"}``.

    Raises:
        BusUnavailableError: no connection, or no answer.
        BusApiError: the broker refused the consumer.
    """
    async with connection.deliveries:
        delivery = Delivery(connection, stream, heartbeat)
        inbox = connection.inbox()
        subscription = await connection.subscribe(f"{inbox}.*", delivery._take)
        config = {
            "filter_subjects": list(subjects),
            "ack_policy": "none",
            "max_deliver": 1,
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": _INACTIVE_SECONDS * _NANOSECONDS,
            **policy,
        }
        try:
            created = await connection.api(f"CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config})
            try:
                await delivery._created(created, inbox)
                yield delivery
            finally:
                # What is not removed here, the broker removes after a while without a request.
                with suppress(BusError):
                    await connection.api(f"CONSUMER.DELETE.{stream}.{created['name']}")
        finally:
            await subscription.close()


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
"""Receives a present version: its object and its message."""

LastLogged = Callable[[str, int, Logged], None]
"""Receives the last version of an object in the history: its subject and its sequence there."""


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
    """Hand on the last version in the history of every object whose subject matches; the listener should keep none.

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
