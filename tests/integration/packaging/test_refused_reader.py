"""What a person reads whom the broker does not let read the event log, on real servers; and how the command ends."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme
from support.nats import connected, eventually
from typer.testing import CliRunner

from aim_cli.__main__ import app
from aim_console.mirror import mirror
from aim_local.nats import NatsServer
from aim_local.ports import HOST
from controller_runtime.log.broker.streams import ensure_streams

USERS = """
accounts {
  ours { jetstream: enabled, users: [
    {user: all, password: s3cret},
    {user: none, password: s3cret, permissions: {publish: {deny: ["$JS.API.>"]}}},
    {user: deaf, password: s3cret, permissions: {subscribe: {allow: ["elsewhere.>"]}}},
  ] }
  theirs { jetstream: enabled, users: [{user: guest, password: s3cret}] }
  bare { users: [{user: poor, password: s3cret}] }
}
"""
COMMANDS = (
    ["timeline", "aimservice", "ns/chat", "-o", "json"],
    ["timeline", "aimservice", "ns/chat", "--follow", "-o", "json"],
    ["replay", "--all", "-o", "json"],
    ["state", "--at", "0s"],
    ["diff", "--from", "1m"],
)


@pytest.fixture
async def server() -> AsyncIterator[NatsServer]:
    async with NatsServer(extra_config=USERS) as server:
        async with connected(address(server, "all")) as bus:
            await bus.wait_connected()
            await ensure_streams(bus)
        yield server


def address(server: NatsServer, user: str, password: str = "s3cret") -> str:
    return f"nats://{user}:{password}@{HOST}:{server.port}"


async def said(url: str, words: list[str], code: int = 4) -> str:
    """The one line that a command ends with."""
    ended = await asyncio.to_thread(CliRunner().invoke, app, [*words, "--nats-url", url])
    assert (ended.exit_code, ended.stdout) == (code, ""), ended
    assert ended.stderr.count("\n") == 1
    assert "s3cret" not in ended.stderr
    return ended.stderr


@pytest.mark.spec("FW-730", "FW-602")
@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize(
    ("user", "found", "remedy"),
    [
        ("none", "denies publishing to $js.api.", "AIM_NATS_CREDENTIALS_FILE"),
        ("deaf", "denies subscribing to _inbox.aim.", "AIM_NATS_CREDENTIALS_FILE"),
        ("poor", "has no JetStream", "the account of this user"),
        ("guest", "has no such log: ", "AIM_NATS_ROOT"),
    ],
)
async def test_a_user_that_may_not_read_the_log(
    server: NatsServer, words: list[str], user: str, found: str, remedy: str
) -> None:
    line = await said(address(server, user), words)
    assert f"the message broker nats://***@{HOST}:{server.port} {found}" in line
    assert remedy in line.rpartition("; ")[2]


@pytest.mark.spec("FW-730")
async def test_credentials_that_are_refused_and_where_they_stand(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "password, or the token, in --nats-url" in await said(address(server, "all", "wr0ng"), ["bus"])
    assert "name its user aim" in await said(server.url, ["bus"])
    absent = tmp_path / "absent.nk"
    monkeypatch.setenv("AIM_NATS_CREDENTIALS_FILE", str(absent))
    assert (await said(server.url, ["bus"])).startswith(f"aim: AIM_NATS_CREDENTIALS_FILE {absent} cannot be read")


@pytest.mark.spec("FW-730")
async def test_tls_without_a_ca_and_a_ca_without_tls(server: NatsServer, tmp_path: Path) -> None:
    crt, key = (tmp_path / name for name in ("tls.crt", "tls.key"))
    served = trustme.CA().issue_cert(HOST)
    served.cert_chain_pems[0].write_to_path(str(crt))
    served.private_key_pem.write_to_path(str(key))
    async with NatsServer(extra_config=f'tls {{ cert_file: "{crt}", key_file: "{key}" }}') as secure:
        assert "name the CA of the broker in AIM_NATS_CA_FILE" in await said(secure.url, ["bus"])
    plain = await said(address(server, "all").replace("nats:", "tls:"), ["bus"])
    assert "offers no TLS" in plain
    assert "--nats-ca-file" not in plain


@pytest.mark.spec("FW-730")
async def test_a_host_that_is_no_broker() -> None:
    with socket.create_server((HOST, 0)) as silent:
        line = await said(f"nats://{HOST}:{silent.getsockname()[1]}", ["bus"])
    assert "or none of a NATS server" in line


@pytest.mark.spec("FW-730")
@pytest.mark.parametrize(
    "url", ["://", "nats://", "nats://h:port", "nats://[::1", "nats://a:s3cret@h:99999", " , ", "a:s3cret@h:4222"]
)
@pytest.mark.parametrize("words", [["bus"], ["console"], *COMMANDS[:2]])
async def test_an_address_that_is_none(url: str, words: list[str], kubeconfig: Path) -> None:
    more = ["--kubeconfig", str(kubeconfig)] if words == ["console"] else []
    assert "is no address of a broker: expected" in await said(url, [*words, *more], 2)


@pytest.mark.spec("FW-730")
@pytest.mark.parametrize("words", [["bus"], ["console"]])
async def test_a_file_where_a_broker_is_asked(words: list[str], kubeconfig: Path) -> None:
    more = ["--kubeconfig", str(kubeconfig)] if words == ["console"] else []
    assert "is a file, and this asks the broker itself" in await said("night.aimlog", [*words, *more], 2)


@pytest.mark.spec("FW-730")
@pytest.mark.parametrize("words", [["bus"], *COMMANDS])
async def test_a_root_that_is_none(server: NatsServer, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIM_NATS_ROOT", "no such.root")
    assert (await said(address(server, "all"), words, 2)).startswith("aim: AIM_NATS_ROOT: expected small letters")


@pytest.mark.spec("FW-731")
@pytest.mark.parametrize(("user", "found"), [("none", "denies publishing to $js.api."), ("poor", "has no JetStream")])
async def test_a_console_without_a_log(server: NatsServer, user: str, found: str, kubeconfig: Path) -> None:
    assert found in await said(address(server, user), ["console", "--kubeconfig", str(kubeconfig)])
    async with mirror(address(server, user)) as present:
        await eventually(lambda: found in present.refused, "pages to know it")
        assert not present.complete


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """Of a cluster that nobody asks."""
    file = tmp_path / "kubeconfig"
    cluster = f'{{name: c, cluster: {{server: "http://{HOST}:1"}}}}'
    context = "{name: c, context: {cluster: c, user: ''}}"
    file.write_text(f"current-context: c\nclusters: [{cluster}]\ncontexts: [{context}]\nusers: []\n", encoding="utf-8")
    return file
