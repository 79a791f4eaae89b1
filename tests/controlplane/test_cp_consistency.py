"""Whatever happens, a list and the watch from its version add up to the next list."""

import asyncio
import random

import pytest
from support.controlplane import watching
from support.suite import SuiteApi

from controller_runtime import JsonObject

CONFIG_MAPS = "/api/v1/namespaces/$ns/configmaps"
TYPE = {"apiVersion": "v1", "kind": "ConfigMap"}
"""What the events of a watch say and the items of a list leave out."""
SELECTIONS = ("", "tier=web", "tier!=web", "tier in (web,db),rank", "!rank")


def _labels(chance: random.Random) -> dict[str, str]:
    labels = {"tier": chance.choice(("web", "db", "cache")), "rank": "1"}
    return {key: value for key, value in labels.items() if chance.random() < 0.7}


async def _happen(api: SuiteApi, chance: random.Random) -> None:
    path, labels = f"{CONFIG_MAPS}/c{chance.randrange(6)}", _labels(chance)
    if (await api.get(path)).status == 404:
        await api.created(CONFIG_MAPS, {"metadata": {"name": path.rsplit("/", 1)[1], "labels": labels}})
    elif chance.random() < 0.3:
        await api.delete(path)
    else:
        await api.merge(path, {"metadata": {"labels": {"tier": None, "rank": None} | labels}})


async def _list(api: SuiteApi, selection: str) -> tuple[str, dict[str, JsonObject]]:
    body = (await api.get(CONFIG_MAPS, labelSelector=selection)).body
    return body["metadata"]["resourceVersion"], {item["metadata"]["name"]: TYPE | item for item in body["items"]}


async def _replay(
    api: SuiteApi, start: tuple[str, dict[str, JsonObject]], selection: str, end: int
) -> dict[str, JsonObject]:
    """The listed objects after all events up to a version."""
    version, objects = start
    query = {
        "resourceVersion": version,
        "labelSelector": selection,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "1",
    }
    async with watching(api, CONFIG_MAPS, **query) as events:
        async for event in events:
            metadata = event["object"]["metadata"]
            if event["type"] == "DELETED":
                del objects[metadata["name"]]
            elif event["type"] != "BOOKMARK":
                assert (event["type"] == "ADDED") == (metadata["name"] not in objects)
                objects[metadata["name"]] = event["object"]
            if int(metadata["resourceVersion"]) >= end:
                break
    return objects


@pytest.mark.parametrize("seed", range(3))
async def test_lists_and_watches_agree(api: SuiteApi, seed: int) -> None:
    chance = random.Random(seed)
    starts = {selection: await _list(api, selection) for selection in SELECTIONS}
    for _ in range(60):
        await _happen(api, chance)
        if chance.random() < 0.1:
            selection = chance.choice(SELECTIONS)
            starts[selection] = await _list(api, selection)
    ends = {selection: await _list(api, selection) for selection in SELECTIONS}
    async with asyncio.TaskGroup() as tasks:
        replays = {
            selection: tasks.create_task(_replay(api, start, selection, int(ends[selection][0])))
            for selection, start in starts.items()
        }
    assert {selection: replay.result() for selection, replay in replays.items()} == {
        selection: objects for selection, (_, objects) in ends.items()
    }


@pytest.mark.parametrize("seed", range(3))
async def test_pages_of_the_past_are_the_list_of_then(api: SuiteApi, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(20):
        await _happen(api, chance)
    version, expected = await _list(api, "")
    for _ in range(20):
        await _happen(api, chance)
    then = await api.get(CONFIG_MAPS, resourceVersion=version, resourceVersionMatch="Exact")
    assert {item["metadata"]["name"]: TYPE | item for item in then.body["items"]} == expected
