"""From the former release to this one and back, one service after the other, while there is work (FW-662)."""

import asyncio
import os
import random
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
from matrix.api_proxy import acting_without_lease
from matrix.site import NAMESPACE, Site, started_site
from support.nats import eventually
from upgrade.load import Load
from upgrade.release import PREVIOUS, unpacked

from aim_cli.services import services
from aim_domain.services import SERVICES
from aim_local.stack import ClusterKind
from aim_local.supervision.process import Supervised
from controller_runtime.log.broker.connection import BusConnection, BusSettings, connect
from controller_runtime.log.broker.reading import stream_state
from controller_runtime.log.history.reader import History
from controller_runtime.log.history.versions import LoggedVersion
from controller_runtime.replay import Replayed, Replayer, Verdict
from controller_runtime.shard import shard_of

SEED = 20261123
ACTS = 30
DIVISIBLE = ("serving", "routing")
SHARDS = next(count for count in range(2, 17) if shard_of(NAMESPACE, count))
"""The least number of which the namespace of the load does not belong to shard 0."""
DECIDED = {"serving", "routing"}
"""Creations, changes and deletions that this release alone takes part in."""
ADDED = ("gateways/", "aimprofile", "aimclusterprofile", "configmaps-profile-catalogue")
"""Parts that this release reads and the former did not: its decisions record no position of them, so what today's code
would have decided with them is not known (FW-481)."""
pytestmark = pytest.mark.timeout(600)


async def output(path: str, *arguments: str, **variables: str) -> tuple[int, str]:
    """What a Python program with that `PYTHONPATH` prints, and how it ends."""
    env = {**os.environ, "PYTHONPATH": path, **variables}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    text, _ = await process.communicate()
    return process.returncode or 0, text.decode()


async def rolled(
    site: Site,
    exits: AsyncExitStack,
    running: Mapping[str, Supervised],
    number: int,
    path: str,
    *,
    services: Sequence[str] = SERVICES,
    **variables: str,
) -> dict[str, Supervised]:
    """As a Deployment does it: the new pod is ready, then the old one gets SIGTERM; the processes that run then."""
    found = dict(running)
    for name in services:
        found[name] = site.replica(name, number, PYTHONPATH=path, **variables)
        exits.push_async_callback(found[name].stop)
        await found[name].start()
        await running[name].stop()
    return found


async def last_decision(bus: BusConnection) -> int:
    return (await stream_state(bus, "AIM_DECISIONS")).last_sequence


async def replayed(bus: BusConnection) -> list[Replayed]:
    """Every decision of both releases, taken again by this one; all can be read."""
    replayer = Replayer(History(bus), services())
    found = [one async for one in replayer.decisions()]
    assert replayer.unreadable == 0
    return found


def _place(version: LoggedVersion) -> str:
    state = version.state
    what = f"{state.verb} {state.resource_version} of {state.uid} by {state.source} at {state.time}"
    return f"{version.place} after {state.previous}, {what}, gap {state.gap}, repeats {state.repeats}, {version.hole}"


async def lacking(bus: BusConnection, one: Replayed) -> str:
    """What a decision read and the log lacks, with what the log has of the objects that it read by name."""
    record = one.stored.record
    about = [f"{record.at} {record.service}/{record.shard} {record.part}/{record.key}: {'; '.join(one.missing)}"]
    for read in record.reads.objects:
        versions = await History(bus).versions(read.part, read.key)
        if not any(read.version and kept.is_version(read.version) for kept in versions):
            about += [f"  read {read.part}/{read.key} {read.version}", *(f"  kept {_place(kept)}" for kept in versions)]
    return "\n".join(about)


@pytest.mark.spec("FW-662", "FW-473")
async def test_a_rolling_upgrade_and_back_under_load_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    former = await unpacked(PREVIOUS, tmp_path / "former")
    code, module = await output(former, "-c", "import aim_serving; print(aim_serving.__file__)")
    assert (code, Path(module).is_relative_to(tmp_path)) == (0, True), module
    async with (
        started_site(tmp_path / "site", ClusterKind.EMBEDDED, 0, SEED, PYTHONPATH=former) as site,
        connect(BusSettings.of_urls(site.stack.nats_url, "upgrade")) as bus,
        AsyncExitStack() as exits,
    ):
        await bus.wait_connected()
        load = Load(site, random.Random(SEED))
        await load.begin()
        steady = load.predictors()
        assert [len(one) for one in steady.values()] == [3, 3, 3], "each with a pod"
        acting = asyncio.create_task(load.go_on())
        now = await rolled(site, exits, {name: site.stack[name] for name in SERVICES}, 1, "")
        first, acts = await last_decision(bus), load.acts
        await eventually(lambda: load.acts >= acts + ACTS or acting.done(), "this release has been at work")

        async def decided() -> bool:
            return {one.stored.record.service for one in await replayed(bus) if one.stored.sequence > first} > DECIDED

        # What the load has done need not have had each of them decide yet; the replay below is to cover all.
        await eventually(decided, "serving, routing and another have stored decisions")
        now = await rolled(site, exits, now, 2, "", services=DIVISIBLE, AIM_SHARDS=str(SHARDS))
        divided = await last_decision(bus)

        async def decided_in_shards() -> bool:
            records = [one.stored.record for one in await replayed(bus) if one.stored.sequence > divided]
            return {one.service for one in records if one.shard} == set(DIVISIBLE)

        await eventually(
            decided_in_shards, "the leaders of the shard have stored decisions of both services", within=120
        )
        now = await rolled(site, exits, now, 3, "", services=DIVISIBLE)
        last = await last_decision(bus)
        await rolled(site, exits, now, 4, former)
        acting.cancel()
        with suppress(asyncio.CancelledError):
            await acting
        assert await load.ended() == []
        assert load.predictors() == steady, "no predictor was restarted"
        for name in SERVICES:
            pods = {name: f"aim-{name}-0", **{f"{name}-{number}": f"aim-{name}-{number}" for number in range(1, 5)}}
            assert acting_without_lease(site.proxy.written, pods) == []
        results = await replayed(bus)
        unknown = [one for one in results if one.verdict is Verdict.UNKNOWN]
        holes = [one for one in unknown if not all(missing.startswith(ADDED) for missing in one.missing)]
        assert [await lacking(bus, one) for one in holes] == []
        own = [one for one in results if first < one.stored.sequence <= last]
        assert {one.stored.record.service for one in own} > DECIDED
        assert [(one.stored.record.key, one.differences) for one in own if one.verdict is not Verdict.SAME] == []
        replay = ("-m", "aim_cli", "replay")
        # Releases before FW-689 take all decisions when nothing is named.
        _, options = await output(former, *replay, "--help")
        every = ("--all",) if "--all" in options else ()
        code, text = await output(former, *replay, *every, AIM_NATS_URL=site.stack.nats_url)
        assert code in (0, 1), f"the former release cannot read the log of both: {text[-2000:]}"
