"""Two installations at one broker: by accounts that know nothing of each other, and by roots."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest
import yaml
from support.nats import PATIENT_SECONDS, TEST_LIMITS, eventually
from typer.testing import CliRunner

from aim_local.nats import NatsServer
from aim_packaging.__main__ import app
from aim_packaging.broker import authorization, user_of
from aim_packaging.keys import new_key
from aim_packaging.services import definitions
from controller_runtime import Key
from controller_runtime.log.broker.connection import BusConnection, BusSettings, PubAck, connect
from controller_runtime.log.broker.reading import count_messages
from controller_runtime.log.broker.streams import ensure_streams
from controller_runtime.log.wire.subjects import DEFAULT_ROOT, Layout

SERVING: Final = "aim-serving"
OBJECT: Final = Key("team", "chat")


@dataclass(frozen=True, slots=True)
class Installation:
    """What one installation goes by."""

    layout: Layout
    seed: Path

    @asynccontextmanager
    async def serving(self, url: str) -> AsyncIterator[BusConnection]:
        """The connection of its serving service, with its streams."""
        settings = BusSettings.of_urls(url, SERVING, self.seed)
        async with connect(replace(settings, request_timeout=PATIENT_SECONDS)) as bus:
            await bus.wait_connected()
            await ensure_streams(bus, self.layout, TEST_LIMITS)
            yield bus

    async def versions(self, bus: BusConnection) -> int:
        """How many it finds in its present."""
        return await count_messages(bus, self.layout.state_stream, f"{self.layout.root}.state.>")


def with_account(folder: Path, name: str, root: str = DEFAULT_ROOT) -> tuple[Installation, str]:
    """As `nats-keys` makes it, and the file for the broker."""
    done = CliRunner().invoke(app, ["nats-keys", str(folder), "--account", name, "--root", root])
    assert done.exit_code == 0, done.output
    secrets = yaml.safe_load_all((folder / "secrets.yaml").read_text(encoding="utf-8"))
    (secret,) = [one for one in secrets if one["metadata"]["name"].endswith(SERVING)]
    seed = folder / "serving.nk"
    seed.write_bytes(base64.b64decode(secret["data"]["user.nk"]))
    return Installation(Layout(root), seed), (folder / "accounts.conf").read_text(encoding="utf-8")


def merged(files: Iterable[str]) -> str:
    """One block of accounts, as whoever runs the broker writes it."""
    blocks = [json.loads(text.removeprefix("accounts: ")) for text in files]
    return f"accounts: {json.dumps({name: block for one in blocks for name, block in one.items()})}"


@pytest.mark.spec("FW-723")
async def test_installations_with_accounts_of_their_own_see_nothing_of_each_other(tmp_path: Path) -> None:
    (one, first), (two, second) = (with_account(tmp_path / name, name) for name in ("team-a", "team-b"))
    config = merged((first, second))
    async with (
        NatsServer(extra_config=config) as server,
        one.serving(server.url) as ours,
        two.serving(server.url) as theirs,
    ):
        stored = await ours.publish(one.layout.state("aimservices", OBJECT), b"{}", {})
        assert isinstance(stored, PubAck)
        assert (await one.versions(ours), await two.versions(theirs)) == (1, 0)
        assert (ours.statistics.denied, theirs.statistics.denied) == (None, None)


@pytest.mark.spec("FW-723", "FW-535")
async def test_of_installations_with_roots_none_writes_what_is_another_s(tmp_path: Path) -> None:
    (serving,) = [one for one in definitions() if one.field_manager == SERVING]
    made, users = [], []
    for root in ("aim", "team-b"):
        key, layout = new_key(), Layout(root)
        seed = tmp_path / f"{root}.nk"
        seed.write_text(key.seed, encoding="utf-8")
        made.append(Installation(layout, seed))
        users.append((user_of(serving, layout), key.public))
    one, two = made
    config = f"authorization: {json.dumps(authorization(users))}"
    async with (
        NatsServer(extra_config=config) as server,
        one.serving(server.url) as ours,
        two.serving(server.url) as theirs,
    ):
        assert isinstance(await ours.publish(one.layout.state("aimservices", OBJECT), b"{}", {}), PubAck)
        assert (await one.versions(ours), await two.versions(theirs)) == (1, 0)
        await _refused(ours, two.layout.state("aimservices", OBJECT))
        assert await two.versions(theirs) == 0


@pytest.mark.spec("FW-723")
async def test_the_users_of_an_account_are_those_of_the_root_that_is_asked_for(tmp_path: Path) -> None:
    one, config = with_account(tmp_path, "team-b", "team-b")
    async with NatsServer(extra_config=config) as server, one.serving(server.url) as ours:
        assert isinstance(await ours.publish(one.layout.state("aimservices", OBJECT), b"{}", {}), PubAck)
        await _refused(ours, Layout().state("aimservices", OBJECT))


async def _refused(bus: BusConnection, subject: str) -> None:
    publishing = asyncio.create_task(bus.publish(subject, b"{}", {}))
    await eventually(lambda: bus.statistics.denied is not None, "the broker's denial")
    publishing.cancel()
    assert subject.lower() in (bus.statistics.denied or "").lower()
