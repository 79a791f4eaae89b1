"""A publisher in a process of its own, to be killed: ``python -m support.publisher_process URL ROOT COUNT OBJECTS``."""

import asyncio
import sys

from support.cache_objects import widgets
from support.nats import settings_for
from support.publishing import QUICK, Cluster

from controller_runtime.kube.reflector_state import Upsert
from controller_runtime.log.broker.connection import connect
from controller_runtime.log.publish.publisher import Publisher
from controller_runtime.log.publish.source import SourceVersion
from controller_runtime.log.publish.state import PublisherSetup
from controller_runtime.log.wire.subjects import Layout


def change(cluster: Cluster, number: int, objects: int) -> Upsert[SourceVersion]:
    """One change of the burst that test and process agree on."""
    return cluster.put(f"w{number % objects}", number=number, padding="x" * 500)


async def main(url: str, root: str, count: int, objects: int) -> None:
    """Publish the burst, as fast as it goes."""
    cluster = Cluster()
    async with connect(settings_for(url, "victim")) as connection, asyncio.TaskGroup() as group:
        setup = PublisherSetup(connection, "victim", "cluster-1", Layout(root), settings=QUICK)
        publisher = Publisher(setup, widgets())
        await connection.wait_connected()
        publisher.take(cluster.listing())
        group.create_task(publisher.run())
        for number in range(count):
            publisher.take(change(cluster, number, objects))
            if publisher.statistics.waiting > 500:
                await asyncio.sleep(0.01)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
