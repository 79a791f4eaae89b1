"""Reading streams: one message at a time, in order, or the last of many subjects as of some time."""

import asyncio
import base64
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.parser import BytesParser
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from controller_runtime.json import JsonObject, dumps
from controller_runtime.log.broker.address import BusApiError, BusError, BusUnavailableError
from controller_runtime.log.broker.connection import REQUEST_TIMEOUT, BusConnection, Message
from controller_runtime.tasks import within

STREAM_NOT_FOUND: Final = 10059
_NO_MESSAGE: Final = 10037
_NO_SUCH_SEQUENCE: Final = 10043
_NOT_REMOVED: Final = 10057
"""Any failure to remove a message, also that a newer one took its place at that moment."""
_COUNTING_SECONDS: Final = 5
"""After that the broker forgets a consumer that was made to count and could not be removed."""


@dataclass(frozen=True, slots=True)
class StreamState:
    """What identifies a stream and tells how far it is.

    Attributes:
        created: when it was made, verbatim; another value means another stream.
        last_sequence: highest sequence given out.
        now: the broker's clock.
        messages: how many it holds; where subjects were asked for, how many of these it holds anything of.
        first_sequence: that of the oldest message it holds.
        deleted: removed messages between the first and the last.
    """

    created: str
    last_sequence: int
    now: datetime
    messages: int = 0
    first_sequence: int = 0
    deleted: int = 0


class StoredMessage(NamedTuple):
    """A message as it lies in a stream; ``stored`` is the broker's time."""

    subject: str
    sequence: int
    stored: datetime
    headers: Mapping[str, str]
    data: bytes


_BEYOND_ALL_PAGES: Final = 1 << 30


def broker_clock(info: JsonObject) -> datetime:
    """The broker's clock in an answer to ``STREAM.INFO``; the own one where a broker does not tell it."""
    return broker_time(info["ts"]) if "ts" in info else datetime.now(UTC)


async def stream_state(connection: BusConnection, stream: str, subjects: str = "") -> StreamState:
    """Ask for a stream's state.

    Args:
        subjects: filter for `StreamState.messages`, which counts subjects then.

    Raises:
        BusUnavailableError: no answer.
        BusApiError: it does not exist (`STREAM_NOT_FOUND`).
    """
    return state_of(await stream_info(connection, stream, subjects), subjects)


async def stream_info(connection: BusConnection, stream: str, subjects: str = "") -> JsonObject:
    """Ask for a stream's configuration and state, as the broker answers; see `stream_state`."""
    # The broker tells the subjects page by page, with their total on every page; an empty page costs a kilobyte.
    page = {"subjects_filter": subjects, "offset": _BEYOND_ALL_PAGES} if subjects else {}
    return await connection.api(f"STREAM.INFO.{stream}", page)


def state_of(info: JsonObject, subjects: str = "") -> StreamState:
    """The state in such an answer."""
    now = broker_clock(info)
    state = info["state"]
    messages = int(info.get("total", 0)) if subjects else int(state["messages"])
    ends = int(state["first_seq"]), int(state.get("num_deleted", 0))
    return StreamState(str(info["created"]), int(state["last_seq"]), now, messages, *ends)


async def last_message(connection: BusConnection, stream: str, subject: str) -> StoredMessage | None:
    """The subject's last message, from the stream's leader; ``None`` if there is none.

    Raises:
        BusUnavailableError: no answer.
        BusApiError: anything else that the broker minds.
    """
    return await _get(connection, stream, {"last_by_subj": subject})


async def message_at(connection: BusConnection, stream: str, sequence: int) -> StoredMessage | None:
    """The message at a sequence, from the stream's leader; ``None`` if it is gone.

    Raises:
        BusUnavailableError: no answer.
        BusApiError: anything else that the broker minds.
    """
    return await _get(connection, stream, {"seq": sequence})


async def next_message(connection: BusConnection, stream: str, subject: str, sequence: int) -> StoredMessage | None:
    """The subject's first message at a sequence or behind it, from the stream's leader; ``None`` if there is none.

    Raises:
        BusUnavailableError: no answer.
        BusApiError: anything else that the broker minds.
    """
    return await _get(connection, stream, {"seq": sequence, "next_by_subj": subject})


async def first_message_since(connection: BusConnection, stream: str, moment: datetime) -> StoredMessage | None:
    """The first message stored at a time or later, by the broker's clock, from the stream's leader.

    Raises:
        BusUnavailableError: no answer.
        BusApiError: anything else that the broker minds.
    """
    return await _get(connection, stream, {"start_time": rfc3339(moment)})


async def delete_message(connection: BusConnection, stream: str, sequence: int) -> bool:
    """Remove exactly one message; whether it was there.

    Raises:
        BusUnavailableError: no answer.
        BusApiError: anything else that the broker minds.
    """
    try:
        await connection.api(f"STREAM.MSG.DELETE.{stream}", {"seq": sequence, "no_erase": True})
    except BusApiError as error:
        if error.code in {_NO_MESSAGE, _NO_SUCH_SEQUENCE}:
            return False
        if error.code == _NOT_REMOVED and await message_at(connection, stream, sequence) is None:
            return False
        raise
    return True


async def _get(connection: BusConnection, stream: str, request: JsonObject) -> StoredMessage | None:
    try:
        message = (await connection.api(f"STREAM.MSG.GET.{stream}", request))["message"]
    except BusApiError as error:
        if error.code == _NO_MESSAGE:
            return None
        raise
    return StoredMessage(
        str(message["subject"]),
        int(message["seq"]),
        broker_time(message["time"]),
        _headers(base64.b64decode(message.get("hdrs") or "")),
        base64.b64decode(message.get("data") or ""),
    )


class DeliveryPosition(NamedTuple):
    """Where a delivered message stands, as the broker tells in its reply subject.

    Attributes:
        nanoseconds: when it was stored, since 1970 by the broker's clock.
        pending: messages that the consumer still has to deliver.
    """

    stream_sequence: int
    consumer_sequence: int
    nanoseconds: int
    pending: int

    @property
    def stored(self) -> datetime:
        """When it was stored, by the broker's clock."""
        return datetime.fromtimestamp(self.nanoseconds / 1e9, UTC)

    @classmethod
    def of(cls, reply: str) -> "DeliveryPosition":
        """Read ``$JS.ACK.…``, in its short form or in the one with domain and account.

        Raises:
            BusUnavailableError: it is no such subject, so the message did not come from a consumer.
        """
        tokens = reply.split(".")
        offset = {9: 4, 11: 6, 12: 6}.get(len(tokens))
        if offset is None or tokens[:2] != ["$JS", "ACK"]:
            raise BusUnavailableError(f"a delivery came with the reply subject {reply!r}, which has no position")
        _, stream, consumer, nanoseconds, pending = tokens[offset : offset + 5]
        return cls(int(stream), int(consumer), int(nanoseconds), int(pending))


def broker_time(text: str) -> datetime:
    """A time in the broker's notation, which has nanoseconds."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{(fraction or '0')[:6]:0<6}+00:00")


def rfc3339(moment: datetime) -> str:
    """A time as the broker reads it."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _headers(raw: bytes) -> dict[str, str]:
    _, _, lines = raw.partition(b"\r\n")
    return dict(BytesParser().parsebytes(lines).items())


async def count_messages(connection: BusConnection, stream: str, subject: str) -> int:
    """How many messages a stream holds under a subject, which may have wildcards; none of them is read.

    Raises:
        BusUnavailableError: no connection, or no answer.
        BusApiError: the broker refused; there is no such stream.
    """
    config = {
        "filter_subject": subject,
        "deliver_policy": "all",
        "ack_policy": "none",
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": _COUNTING_SECONDS * 1_000_000_000,
    }
    reported = await connection.api(f"CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config})
    with suppress(BusError):
        await connection.api(f"CONSUMER.DELETE.{stream}.{reported['name']}")
    return int(reported["num_pending"])


_EARLY: Final = 512
"""What may wait for one that is missing; no more lie between the requests of a reader."""


class DeliveryLostError(BusError):
    """The consumer missed something, or fell silent: make a new one."""


class Placed(Protocol):
    """Has a place in the stream and in the delivery."""

    @property
    def position(self) -> DeliveryPosition: ...


P = TypeVar("P", bound=Placed)


class InOrder(Generic[P]):
    """Holds back what came early and drops what came before.

    Attributes:
        taken: consumer sequence of the last one handed on.
    """

    def __init__(self) -> None:
        self.taken = 0
        self._stream_sequence = 0
        self._early: dict[int, P] = {}
        self._reported = 0

    def take(self, one: P) -> list[P]:
        """What can be handed on now.

        Raises:
            DeliveryLostError: it is not of the stream that was delivered so far, or one before it is missing and so
                much waits already that it will not come.
        """
        position = one.position
        if position.consumer_sequence <= self.taken:
            if position.stream_sequence > self._stream_sequence:
                raise self._of_another_stream(position)
            return []
        self._early.setdefault(position.consumer_sequence, one)
        if len(self._early) > _EARLY:
            raise DeliveryLostError(self.missing)
        found: list[P] = []
        while (following := self._early.pop(self.taken + 1, None)) is not None:
            if following.position.stream_sequence <= self._stream_sequence:
                raise self._of_another_stream(following.position)
            self.taken = following.position.consumer_sequence
            self._stream_sequence = following.position.stream_sequence
            found.append(following)
        return found

    def report(self, delivered: int) -> None:
        """The broker says how many it has delivered."""
        self._reported = max(self._reported, delivered)

    @property
    def missing(self) -> str:
        """What is missing before something that came or was announced, in words; empty if nothing is."""
        if self._early:
            return f"delivery {min(self._early)} came after {self.taken}: messages were lost"
        if self._reported > self.taken:
            return f"the broker delivered {self._reported} messages, {self.taken} arrived"
        return ""

    def _of_another_stream(self, position: DeliveryPosition) -> DeliveryLostError:
        return DeliveryLostError(
            f"stream sequence {position.stream_sequence} came after {self._stream_sequence}: not the same stream"
        )


_SUBJECTS_AT_ONCE: Final = 256
"""Few enough for the broker to match quickly; it takes up to 1024."""
_BYTES_AT_ONCE: Final = 8 << 20
"""Far below what the broker lets wait for a connection."""
_COMPLETE, _NOTHING = "204", "404"
_SUBJECT: Final = "Nats-Subject"
_PENDING: Final = "Nats-Num-Pending"


async def last_messages(
    connection: BusConnection, stream: str, subjects: Iterable[str], before: datetime
) -> list[Message]:
    """The last message of each subject that was stored before a time; none of a subject without one.

    Args:
        before: by the broker's clock.

    Raises:
        BusUnavailableError: no connection.
        DeliveryLostError: the answer was incomplete, or the broker refused.
    """
    left = sorted(subjects)
    found: list[Message] = []
    while left:
        some, left = left[:_SUBJECTS_AT_ONCE], left[_SUBJECTS_AT_ONCE:]
        got, more = await _some(connection, stream, some, before)
        found += got
        if more:
            have = {message.subject for message in got}
            left = [*(one for one in some if one not in have), *left]
    return found


async def _some(
    connection: BusConnection, stream: str, subjects: list[str], before: datetime
) -> tuple[list[Message], bool]:
    """As many as one answer holds, and whether there are more."""
    arrived: list[Message] = []
    ended = asyncio.Event()

    async def take(message: Message) -> None:
        arrived.append(message)
        if message.status:
            ended.set()

    inbox = connection.inbox()
    subscription = await connection.subscribe(inbox, take)
    try:
        request = {"multi_last": subjects, "up_to_time": rfc3339(before), "max_bytes": _BYTES_AT_ONCE}
        await connection.send(connection.api_subject(f"DIRECT.GET.{stream}"), dumps(request), reply=inbox)
        if not await within(REQUEST_TIMEOUT, ended.wait()):
            raise DeliveryLostError(f"the broker did not return the last messages of {stream} in time")
    finally:
        await subscription.close()
    *messages, end = arrived
    if end.status == _NOTHING:
        return [], False
    counted = [int(message.headers.get(_PENDING, "-1")) for message in (*messages, end)]
    # Each tells how many follow it; the end repeats what the last one stated.
    falls_by_one = counted[:-1] == list(range(counted[0], counted[0] - len(messages), -1))
    if end.status != _COMPLETE or not messages or not falls_by_one or counted[-1] != counted[-2]:
        raise DeliveryLostError(f"the last messages of {stream} are incomplete: {end.status} {end.description}")
    named = [message._replace(subject=message.headers[_SUBJECT]) for message in messages]
    return named, counted[-1] > 0
