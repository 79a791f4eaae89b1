"""The cache of an actor: its own writes and the watch tell of one object in any order."""

import asyncio

import pytest
from support.controlplane import controlplane, eventually

from aim_local.actors.runtime import Informer
from controller_runtime import JsonObject, Key, KubeClient
from controller_runtime.kinds import CONFIG_MAP
from controller_runtime.kube.config import Connection, NoCredentials
from embedded_apiserver import ControlPlane

__all__ = ["controlplane"]

KEY = Key("default", "a")
BODY: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}


@pytest.mark.parametrize("answer_comes_first", [True, False])
async def test_an_object_made_and_deleted_stays_gone_and_its_successor_stays(
    controlplane: ControlPlane, answer_comes_first: bool
) -> None:
    async with KubeClient(Connection(controlplane.url, NoCredentials()), service="suite") as client:
        informer = Informer(client, CONFIG_MAP)
        following = asyncio.create_task(informer.run())
        await informer.synced.wait()
        first = await client.create(CONFIG_MAP, BODY, "suite")
        if answer_comes_first:
            informer.put(first)
        await eventually(lambda: KEY in informer.objects)
        await client.delete(CONFIG_MAP, "a", "default", uid=first["metadata"]["uid"])
        second = await client.create(CONFIG_MAP, BODY, "suite")
        if answer_comes_first:
            # Before the watch tells that the first one is gone.
            informer.put(second)
        await eventually(lambda: informer.objects.get(KEY, first)["metadata"]["uid"] == second["metadata"]["uid"])
        await client.delete(CONFIG_MAP, "a", "default", uid=second["metadata"]["uid"])
        await eventually(lambda: KEY not in informer.objects)

        informer.put(second)

        assert KEY not in informer.objects
        following.cancel()
        await asyncio.wait({following})
