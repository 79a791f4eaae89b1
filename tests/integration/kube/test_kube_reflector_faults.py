"""A reflector on a server that fails at random shows, in the end, exactly what is stored."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from starlette.responses import AsyncContentStream, Response, StreamingResponse
from support.fake_apiserver import status

from controller_runtime import JsonObject, KubeClient, TransportSettings
from controller_runtime.backoff import Backoff
from controller_runtime.kinds import CONFIG_MAP
from controller_runtime.kube.config import Connection, NoCredentials
from controller_runtime.kube.reflector import (
    Bookmark,
    Delete,
    Event,
    Reflector,
    ReflectorSettings,
    Restarted,
    Upsert,
    as_sent,
)
from embedded_apiserver import ControlPlane, Handler, Limits, Request
from embedded_apiserver.serving import json_response

IMPATIENT = ReflectorSettings(
    shortest_watch=1,
    longest_watch=1,
    grace=0.5,
    page_size=3,
    backoff=Backoff(base=0.002, cap=0.01),
    min_watch_seconds=0.0,
)


@dataclass
class Saboteur:
    """Middleware that spoils half of what the reflector asks for, until told to stop."""

    dice: random.Random
    active: bool = True
    damage: int = 0

    async def __call__(self, request: Request, handler: Handler) -> Response:
        if not self.active or "writer" in request.headers["user-agent"] or self.dice.random() < 0.5:
            return await handler(request)
        self.damage += 1
        code, reason = self.dice.choice(((500, "InternalError"), (410, "Expired"), (429, "TooManyRequests"), (0, "")))
        if code:
            return json_response(status(code, reason), code)
        answer = await handler(request)
        if isinstance(answer, StreamingResponse):
            answer.body_iterator = self._cut(answer.body_iterator)
        return answer

    async def _cut(self, stream: AsyncContentStream) -> AsyncIterator[bytes]:
        left = self.dice.randrange(4)
        async for chunk in stream:
            assert isinstance(chunk, bytes)
            if left == 0:
                # Half an event, and the end: a proxy that gave up.
                yield chunk[: len(chunk) // 2]
                return
            left -= 1
            yield chunk


@dataclass
class Mirror:
    """What a consumer makes of the events, with the promises it relies on checked at every step."""

    objects: dict[str, JsonObject] = field(default_factory=dict)
    restarts: int = 0

    def take(self, event: Event[JsonObject]) -> None:
        match event:
            case Restarted(objects):
                listed = {obj["metadata"]["name"]: obj for obj in objects}
                assert self.objects.keys() <= listed.keys(), "an object vanished without a Delete"
                for name, obj in self.objects.items():
                    assert listed[name]["metadata"]["uid"] == obj["metadata"]["uid"], "a successor without a Delete"
                    assert version(listed[name]) >= version(obj), "a version went back"
                self.objects = listed
                self.restarts += 1
            case Upsert(obj):
                known = self.objects.get(obj["metadata"]["name"])
                assert known is None or version(obj) > version(known), "a version was repeated or went back"
                self.objects[obj["metadata"]["name"]] = obj
            case Delete(obj):
                gone = self.objects.pop(obj["metadata"]["name"])
                assert gone["metadata"]["uid"] == obj["metadata"]["uid"]
            case Bookmark():
                pass


def version(obj: JsonObject) -> int:
    return int(obj["metadata"]["resourceVersion"])


def config_map(name: str, x: int) -> JsonObject:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": str(x)}}


async def write_at_random(
    client: KubeClient, dice: random.Random, reflector: Reflector[JsonObject], saboteur: Saboteur, mirror: Mirror
) -> None:
    for number in itertools.count():
        if number >= 60 and saboteur.damage > 5 and mirror.restarts > 1:
            break
        name = f"n{dice.randrange(8)}"
        stored = await client.apply(CONFIG_MAP, config_map(name, number), "aim-test")
        if dice.random() < 0.3:
            await client.delete(CONFIG_MAP, name, "default", uid=stored["metadata"]["uid"])
        if dice.random() < 0.1:
            reflector.relist()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.spec("FW-405", "FW-406")
async def test_nothing_is_lost_whatever_fails(seed: int) -> None:
    dice = random.Random(seed)
    saboteur = Saboteur(dice)
    mirror = Mirror()
    async with (
        asyncio.timeout(60),
        ControlPlane(middleware=saboteur, limits=Limits(events=40)) as plane,
        KubeClient(Connection(plane.url, NoCredentials()), service="writer") as writer,
        KubeClient(
            Connection(plane.url, NoCredentials()), service="reflector", settings=TransportSettings(attempts=1)
        ) as client,
        Reflector(client, CONFIG_MAP, as_sent, "default", settings=IMPATIENT, randomness=dice) as reflector,
    ):
        async with asyncio.TaskGroup() as group:
            writing = group.create_task(finish(writer, dice, reflector, saboteur, mirror))
            async for event in reflector:
                mirror.take(event)
                if "end" in mirror.objects:
                    break
            await writing
        stored = await writer.list(CONFIG_MAP, "default")

    assert mirror.objects == {obj["metadata"]["name"]: obj for obj in stored.items}


async def finish(
    writer: KubeClient, dice: random.Random, reflector: Reflector[JsonObject], saboteur: Saboteur, mirror: Mirror
) -> None:
    await write_at_random(writer, dice, reflector, saboteur, mirror)
    saboteur.active = False
    await writer.create(CONFIG_MAP, config_map("end", 0), "aim-test")
