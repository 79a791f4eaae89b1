"""Connection, streams and reads against a real broker."""

import asyncio
import gc
import socket
import struct
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from support.nats import TEST_LIMITS, connected, eventually, new_layout

from aim_local.nats import NatsServer
from controller_runtime import Key
from controller_runtime.log.broker.address import BusApiError, BusClosedError, BusUnavailableError
from controller_runtime.log.broker.connection import (
    BusConnection,
    ConnectionState,
    Message,
    MessageRefusal,
    PubAck,
    Unknown,
    WrongSequence,
)
from controller_runtime.log.broker.consumer import last_per_subject, read_logged, read_present
from controller_runtime.log.broker.reading import StoredMessage, delete_message, last_message, message_at, stream_state
from controller_runtime.log.broker.streams import StreamLimits, StreamMismatchError, ensure_streams, history_config
from controller_runtime.log.history.decisions import DecisionRecord
from controller_runtime.log.history.reader import History
from controller_runtime.log.wire.messages import Logged
from controller_runtime.log.wire.subjects import Layout

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def test_streams_are_made_once_and_found_again(bus: BusConnection, layout: Layout) -> None:
    before = await stream_state(bus, layout.state_stream)
    await ensure_streams(bus, layout)
    assert (await stream_state(bus, layout.state_stream)).created == before.created
    config = (await bus.api(f"STREAM.INFO.{layout.state_stream}"))["config"]
    assert config["max_msgs_per_subject"] == 1
    assert config["storage"] == "file"
    assert config["max_bytes"] == -1


async def test_a_stream_is_made_with_the_limits_of_whoever_comes_first(nats_server: str) -> None:
    names = new_layout()
    async with connected(nats_server) as bus:
        await bus.wait_connected()
        await ensure_streams(bus, names, StreamLimits(history_age=3600, history_bytes=1 << 20))
        config = (await bus.api(f"STREAM.INFO.{names.history_stream}"))["config"]
    assert config["max_age"] == 3600 * 10**9
    assert config["max_bytes"] == 1 << 20


@pytest.mark.spec("FW-445")
async def test_a_history_that_holds_decisions_gives_up_their_subjects_and_keeps_them(nats_server: str) -> None:
    names, record = new_layout(), DecisionRecord(id="1", service="s", controller="c", part="p", name="n", at=NOW)
    async with connected(nats_server) as bus:
        await bus.wait_connected()
        both = {**history_config(names, TEST_LIMITS), "subjects": [*names.history_subjects, *names.decision_subjects]}
        await bus.api(f"STREAM.CREATE.{names.history_stream}", both)
        subject = names.decision("s", "p", record.key)
        await bus.publish(subject, record.to_json(), {})
        await ensure_streams(bus, names, TEST_LIMITS)
        await bus.publish(subject, record.model_copy(update={"id": "2"}).to_json(), {})
        assert (await last_message(bus, names.decisions_stream, subject)) is not None
        found = await History(bus, names).decisions_of("p", record.key)
    assert [one.record.id for one in found] == ["1", "2"]


async def test_many_processes_may_make_the_streams_at_once(nats_server: str) -> None:
    names = new_layout()
    async with connected(nats_server) as first, connected(nats_server) as second:
        await first.wait_connected()
        await second.wait_connected()
        async with asyncio.TaskGroup() as group:
            for connection in (first, second, first, second):
                group.create_task(ensure_streams(connection, names))


async def test_a_stream_of_another_nature_is_an_error(nats_server: str) -> None:
    names = new_layout()
    async with connected(nats_server) as connection:
        await connection.wait_connected()
        config = {**history_config(names, StreamLimits()), "storage": "memory"}
        await connection.api(f"STREAM.CREATE.{names.history_stream}", config)
        with pytest.raises(StreamMismatchError, match="storage"):
            await ensure_streams(connection, names)


async def test_a_fence_refuses_what_expects_another_sequence(bus: BusConnection, layout: Layout) -> None:
    subject = f"{layout.root}.state.pods.ns.a"
    first = await bus.publish(subject, b"1", {}, expected=0)
    assert isinstance(first, PubAck)
    assert await bus.publish(subject, b"2", {}, expected=0) == WrongSequence(first.sequence)
    second = await bus.publish(subject, b"3", {}, expected=first.sequence)
    assert isinstance(second, PubAck)
    assert second.sequence > first.sequence


async def test_a_repeated_id_is_a_duplicate(bus: BusConnection, layout: Layout) -> None:
    subject = f"{layout.root}.log.pods.ns.a"
    first = await bus.publish(subject, b"1", {"Nats-Msg-Id": "x"})
    again = await bus.publish(subject, b"1", {"Nats-Msg-Id": "x"})
    assert isinstance(first, PubAck)
    assert again == PubAck(first.sequence, duplicate=True)


async def test_an_object_of_three_mebibytes_is_stored_and_more_than_four_refused(
    bus: BusConnection, layout: Layout
) -> None:
    subject = f"{layout.root}.state.pods.ns.big"
    assert isinstance(await bus.publish(subject, b"x" * (3 << 20), {}), PubAck)
    assert isinstance(await bus.publish(subject, b"x" * (5 << 20), {}), MessageRefusal)


@pytest.mark.spec("FW-460", "FW-489")
async def test_what_a_publisher_has_read_of_the_streams_is_not_kept(bus: BusConnection, layout: Layout) -> None:
    for number in range(600):
        await bus.publish(layout.state("widgets", Key("ns", f"w{number}")), bytes(100), {"Aim-Uid": f"u{number}"})
        await bus.publish(layout.log("widgets", Key("ns", f"w{number}")), bytes(100), {"Aim-Seq": str(number)})
    seen: list[str] = []
    most = 0

    def count_kept() -> None:
        nonlocal most
        if len(seen) % 100 == 0:
            most = max(most, sum(isinstance(one, StoredMessage | Logged) for one in gc.get_objects()))

    def take(_: Key, message: StoredMessage) -> None:
        seen.append(message.headers["Aim-Uid"])
        count_kept()

    def log(_: str, _sequence: int, logged: Logged) -> None:
        seen.append(logged.sequence)
        count_kept()

    assert await read_present(bus, layout, "widgets", "", take) == 0
    await read_logged(bus, layout, [layout.log_filter("widgets")], log)
    assert seen == [*(f"u{number}" for number in range(600)), *(str(number) for number in range(600))]
    # What the client's queue and a frame on its way hold at a moment, out of six hundred.
    assert most < 20
    seen.clear()
    await read_logged(bus, layout, [layout.log("widgets", Key("ns", f"w{number}")) for number in range(1, 900, 2)], log)
    assert seen == [str(number) for number in range(1, 600, 2)], "by name"


async def test_reads(bus: BusConnection, layout: Layout) -> None:
    subjects = [f"{layout.root}.state.pods.ns.{name}" for name in "abc"]
    for subject in [*subjects, subjects[0]]:
        await bus.publish(subject, subject.encode(), {"Aim-Uid": subject})
    found = await last_per_subject(bus, layout.state_stream, (f"{layout.root}.state.pods.>",))
    assert [message.subject for message in found] == [subjects[1], subjects[2], subjects[0]]
    assert found[0].headers["Aim-Uid"] == subjects[1]
    bare = await last_per_subject(bus, layout.state_stream, (f"{layout.root}.state.pods.>",), headers_only=True)
    assert bare[0].data == b""
    assert await last_per_subject(bus, layout.state_stream, (f"{layout.root}.state.other.>",)) == []
    last = await last_message(bus, layout.state_stream, subjects[0])
    assert last is not None
    assert (last.data, last.headers["Aim-Uid"]) == (subjects[0].encode(), subjects[0])
    assert abs((last.stored - found[2].stored).total_seconds()) < 0.001
    assert await last_message(bus, layout.state_stream, f"{layout.root}.state.pods.ns.none") is None
    assert await delete_message(bus, layout.state_stream, last.sequence)
    assert not await delete_message(bus, layout.state_stream, last.sequence)
    assert await delete_message(bus, layout.state_stream, found[0].sequence)
    assert not await delete_message(bus, layout.state_stream, found[0].sequence), "what lies before all others, too"
    assert await message_at(bus, layout.state_stream, last.sequence) is None
    assert await last_message(bus, layout.state_stream, subjects[0]) is None


async def test_a_missing_stream_is_reported(bus: BusConnection) -> None:
    with pytest.raises(BusApiError):
        await stream_state(bus, "NO_SUCH_STREAM")
    assert isinstance(await bus.publish("no.such.stream", b"", {}), Unknown)


async def test_an_absent_broker_is_no_error_and_found_later() -> None:
    server = NatsServer()
    async with connected(server.url) as connection:
        assert connection.statistics.state is ConnectionState.CONNECTING
        assert isinstance(await connection.publish("x", b"", {}), Unknown)
        with pytest.raises(BusUnavailableError):
            await connection.request("x")
        async with server:
            async with asyncio.timeout(60):
                assert await connection.wait_connected() == 1


async def test_a_restarted_broker_is_a_new_session() -> None:
    async with NatsServer() as server, connected(server.url) as connection:
        session = await connection.wait_connected()
        await server.kill()
        async with asyncio.timeout(60):
            await connection.wait_lost(session)
        assert isinstance(await connection.publish("x", b"", {}), Unknown)
        await server.start()
        async with asyncio.timeout(60):
            assert await connection.wait_connected() == session + 1
        await eventually(lambda: connection.connected, "connected")


AUTHORIZATION = """
authorization { users = [ { user: limited, password: secret,
  permissions: { publish: { deny: ["secret.>"] }, subscribe: { deny: ["secret.>"] } } } ] }
"""


def with_user(url: str, user: str) -> str:
    return url.replace("nats://", f"nats://{user}@")


async def test_a_denied_permission_is_reported_and_not_taken_for_a_timeout() -> None:
    async with (
        NatsServer(extra_config=AUTHORIZATION) as server,
        connected(with_user(server.url, "limited:secret")) as connection,
    ):
        await connection.wait_connected()
        await connection.subscribe("secret.a", _ignore)
        await eventually(lambda: connection.statistics.denied is not None, "the denied subscription shows")
        assert "subscription" in str(connection.statistics.denied).lower()
        outcome = await connection.publish("secret.b", b"", {})
        assert isinstance(outcome, Unknown)
        assert "permissions violation" in outcome.reason
        assert connection.connected


async def test_wrong_credentials_are_reported_while_it_keeps_trying() -> None:
    async with (
        NatsServer(extra_config=AUTHORIZATION) as server,
        connected(with_user(server.url, "limited:wrong")) as connection,
    ):
        await eventually(lambda: "authorization" in str(connection.statistics.last_error).lower(), "told")
        assert connection.statistics.state is ConnectionState.CONNECTING


@pytest.mark.spec("FW-583")
async def test_a_reset_without_words_does_not_hide_why_the_broker_refused() -> None:
    attempts = 0

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            writer.write(b'INFO {"server_id":"x","version":"2.12.0","max_payload":1}\r\n')
            await reader.readuntil(b"PING\r\n")
            writer.write(b"-ERR 'Authorization Violation'\r\n")
            await reader.read()
        else:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with connected(f"nats://127.0.0.1:{port}") as connection:
            await eventually(lambda: attempts >= 4, "some attempts")
            assert "authorization" in str(connection.statistics.last_error).lower()


async def _ignore(_: Message) -> None:
    """Nothing ever comes."""


async def test_a_connection_that_is_closed_for_good_ends_the_process() -> None:
    async def serve(url: str) -> None:
        async with connected(url) as connection, asyncio.timeout(60):
            await connection.wait_connected()
            await connection._client.close()
            await asyncio.Event().wait()

    async with NatsServer() as server:
        with pytest.raises(ExceptionGroup) as raised:
            await serve(server.url)
    assert raised.group_contains(BusClosedError, match="credentials and permissions")


@pytest.mark.parametrize("answered", [True, False], ids=["answered", "nobody answers"])
async def test_a_cancellation_that_meets_an_answer_is_not_forgotten(
    bus: BusConnection, layout: Layout, *, answered: bool
) -> None:
    """A loop over requests ends whenever it is cancelled; that nobody is there is an answer of the broker, too."""
    asked = bus.api_subject(f"STREAM.INFO.{layout.state_stream}") if answered else "nobody.listens.here"

    async def ask_forever() -> None:
        while True:
            with suppress(BusUnavailableError):
                await bus.request(asked)

    for attempt in range(300):
        task = asyncio.create_task(ask_forever())
        await asyncio.sleep(0.0005 + attempt % 10 * 0.0001)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=20)
        assert done, f"still asking after cancellation {attempt}"


async def test_headers_count_against_the_largest_message(bus: BusConnection, layout: Layout) -> None:
    """One byte too many, and the broker would close the connection for good."""
    subject, headers, limit = layout.sync("pods"), {"Aim-Note": "é"}, 4 << 20
    body = limit - len("NATS/1.0\r\nAim-Note: é\r\n\r\n".encode())
    assert isinstance(await bus.publish(subject, b"x" * (body + 1), headers), MessageRefusal)
    assert isinstance(await bus.publish(subject, b"x" * body, headers), PubAck)
    assert bus.session == 1
