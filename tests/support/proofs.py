"""A publisher of a cluster and a consumer of what it publishes, to come between."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from support.cache_feed import QUICK as QUICK_FEED
from support.cache_feed import Fed, feeding
from support.cache_objects import widgets
from support.publishing import QUICK, Cluster

from controller_runtime import Part, Resource
from controller_runtime.kube.reflector_state import ListFrom
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.freshness import FeedSettings
from controller_runtime.log.publish.publisher import Publisher
from controller_runtime.log.publish.state import PublisherSetup
from controller_runtime.log.wire.subjects import Layout

PART: Final = "widgets"
PATIENT: Final = replace(QUICK_FEED, stale_grace=60)
"""Never asks the API server."""


@asynccontextmanager
async def running(
    bus: BusConnection,
    layout: Layout,
    cluster: Cluster,
    *,
    uid: str = "cluster-1",
    source: str = "first",
    answers: bool = True,
) -> AsyncIterator[Publisher]:
    """A publisher of a cluster, which is asked for a list whenever it wants one; unless it answers no more."""
    publisher: Publisher

    def relist(wanted: ListFrom) -> None:
        if answers:
            publisher.take(replace(cluster.listing(), from_store=wanted is ListFrom.STORE))

    publisher = Publisher(PublisherSetup(bus, source, uid, layout, settings=QUICK), widgets(), relist=relist)
    publisher.take(cluster.listing())
    task = asyncio.create_task(publisher.run())
    try:
        yield publisher
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def following(
    bus: BusConnection,
    layout: Layout,
    part: Part[Resource],
    *,
    cluster: str = "cluster-1",
    settings: FeedSettings = PATIENT,
) -> AsyncIterator[Fed]:
    """A consumer, just started."""
    async with feeding(bus, layout, [part], settings=settings, cluster=cluster) as fed:
        yield fed


def filled(count: int = 5) -> Cluster:
    cluster = Cluster()
    for number in range(count):
        cluster.put(f"w{number}")
    return cluster
