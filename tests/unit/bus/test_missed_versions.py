"""Which versions that a watch from a checkpoint brings lead up to a list (FW-896)."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace

import pytest
from support.cache_objects import widgets
from support.publishing import Cluster

from controller_runtime import Key
from controller_runtime.log.publish.intake import KEPT_WHILE_AWAY, Intake
from controller_runtime.log.publish.judgement import StoredVersion
from controller_runtime.log.publish.missed import MissedVersions
from controller_runtime.log.publish.source import SourceVersion
from controller_runtime.log.wire.messages import Verb

KEY = Key("ns", "a")


def stored(cluster: Cluster) -> dict[Key, StoredVersion]:
    """The stream has the present versions."""
    last = {one.key: one for one in cluster.events}
    return {
        key: StoredVersion(1, Verb.UPSERT, "e", one.uid, one.resource_version, one.digest, 1)
        for key, one in last.items()
    }


async def read(cluster: Cluster, intake: Intake, held: Mapping[Key, StoredVersion], since: int) -> MissedVersions:
    """What a watch from a version brings, that ends where the cluster is."""

    async def changes(version: str) -> AsyncGenerator[SourceVersion, None]:
        for one in cluster.events:
            if int(one.resource_version) > int(version):
                yield one

    missed = MissedVersions(cluster.part, intake, held)
    await missed.read(changes, str(since), {KEY})
    return missed


def numbers(missed: MissedVersions) -> dict[str, list[int]]:
    return {key.name: [int(one.resource_version) for one in versions] for key, versions in missed.versions()}


def intake_of(cluster: Cluster) -> Intake:
    return Intake(cluster.part, lambda: True, None)


@pytest.mark.spec("FW-896")
async def test_versions_between_the_stream_and_the_list_are_found_and_no_later_one() -> None:
    cluster = Cluster()
    cluster.put("a", n=1)
    held, since = stored(cluster), cluster.version
    cluster.put("a", n=2)
    cluster.put("a", n=3)
    intake = intake_of(cluster)
    intake.take(cluster.listing())
    intake.take(cluster.put("a", n=4))
    missed = await read(cluster, intake, held, since)
    assert missed.is_whole({KEY})
    assert numbers(missed) == {"a": [since + 1, since + 2]}
    assert not missed.is_whole({KEY, Key("ns", "never seen")})


@pytest.mark.spec("FW-896", "FW-580")
async def test_what_waits_since_before_the_list_is_not_queued_twice() -> None:
    cluster = Cluster()
    intake = intake_of(cluster)
    intake.take(cluster.listing())
    intake.take(cluster.put("a", n=1))
    held, since = stored(cluster), cluster.version
    intake.continuity.compared()
    intake.take(cluster.put("a", n=2))
    cluster.put("a", n=3)
    intake.take(cluster.listing())
    assert not (await read(cluster, intake, held, since)).is_whole({KEY})


@pytest.mark.spec("FW-896", "FW-446")
@pytest.mark.parametrize("read_only", [False, True])
async def test_versions_that_say_nothing_new_of_what_no_service_writes_are_left_out(*, read_only: bool) -> None:
    cluster = Cluster(part=replace(widgets(), read_only=read_only))
    cluster.put("a", n=1)
    held, since = stored(cluster), cluster.version
    cluster.put("a", n=1)
    cluster.put("a", n=2)
    intake = intake_of(cluster)
    intake.take(cluster.listing())
    missed = await read(cluster, intake, held, since)
    assert missed.is_whole({KEY})
    assert numbers(missed) == {"a": [since + 2] if read_only else [since + 1, since + 2]}


@pytest.mark.spec("FW-896")
async def test_more_versions_than_wait_for_a_broker_are_not_taken() -> None:
    cluster = Cluster()
    cluster.put("a", n=1)
    held, since = stored(cluster), cluster.version
    for number in range(KEPT_WHILE_AWAY + 1):
        cluster.put("busy", n=number)
    cluster.put("a", n=2)
    intake = intake_of(cluster)
    intake.take(cluster.listing())
    assert not (await read(cluster, intake, held, since)).is_whole({KEY})
