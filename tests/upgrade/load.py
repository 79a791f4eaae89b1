"""AIMServices that come, change and go while the services are replaced under them."""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Final

from matrix.oracle import key_of, orphans
from matrix.site import CATALOGUE_IMAGE, NAMESPACE, OWN, Site, service

from controller_runtime import JsonObject

STEADY: Final = ("steady-0", "steady-1", "steady-2")
"""Nobody touches these, so nothing of theirs may change."""
_COMING: Final = 8
_PAUSE: Final = 0.4
"""Seconds between two acts, so a roll of a minute sees about a hundred and fifty."""
_PREDICTOR: Final = "serving.kserve.io/inferenceservice"


@dataclass
class Load:
    """What is done, and what has to be there in the end.

    Attributes:
        wanted: replicas by name, of those that were not deleted.
        acts: how many creations, changes and deletions there were.
    """

    site: Site
    chance: random.Random
    wanted: dict[str, int] = field(default_factory=dict)
    acts: int = 0

    async def begin(self) -> None:
        """Make the namespace and the steady ones, and wait until they run."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await self.site.api.created("/api/v1/namespaces", body)
        for name in STEADY:
            await self._create(name, 1)
        assert await self.site.mirror.until(lambda: not self.missing(), 60), self.missing()

    async def go_on(self) -> None:
        """Act until cancelled."""
        while True:
            await self._act(f"comes-{self.chance.randrange(_COMING)}")
            await asyncio.sleep(_PAUSE)

    async def ended(self) -> list[str]:
        """Wait until all is as it was last asked for; else in what it is not."""
        await self.site.mirror.until(lambda: not self.missing(), 90)
        return self.missing()

    def missing(self) -> list[str]:
        """In what the cluster differs from what was asked for, in words."""
        objects = self.site.mirror.within(NAMESPACE)
        states = {key_of(one).name: _state(one) for one in objects if one["kind"] == "AIMService"}
        asked = {_owner(one): _replicas(one) for one in objects if one["kind"] == "InferenceService"}
        found = [f"{name} is {states.get(name)}" for name in self.wanted if states.get(name) != "Running"]
        found += [f"{name} is not gone" for name in states.keys() - self.wanted.keys()]
        found += [
            f"{name}: {asked.get(name)} replicas" for name, count in self.wanted.items() if asked.get(name) != count
        ]
        return found + orphans(objects, {one["kind"] for one in objects})

    def predictors(self) -> dict[str, tuple[str, ...]]:
        """Of the steady ones: identity and generation of the InferenceService, and identities of its pods."""
        objects = self.site.mirror.within(NAMESPACE)
        services = {one["metadata"]["name"]: one for one in objects if one["kind"] == "InferenceService"}
        found = {name: _identity(one) for name, one in services.items() if _owner(one) in STEADY}
        for pod in objects:
            name = (pod["metadata"].get("labels") or {}).get(_PREDICTOR, "")
            if pod["kind"] == "Pod" and name in found:
                found[name] = (*found[name], *sorted({pod["metadata"]["uid"]}))
        return found

    async def _act(self, name: str) -> None:
        self.acts += 1
        if name not in self.wanted:
            await self._create(name, 1)
        elif self.chance.random() < 0.5:
            self.wanted[name] = 3 - self.wanted[name]
            await self.site.api.merge(self.site.service_path(name), {"spec": {"replicas": self.wanted[name]}})
        else:
            del self.wanted[name]
            await self.site.api.delete(self.site.service_path(name))
            await self.site.api.until_gone(self.site.service_path(name))

    async def _create(self, name: str, replicas: int) -> None:
        spec = {"model": {"image": CATALOGUE_IMAGE}, "replicas": replicas}
        await self.site.api.created(f"{OWN}/namespaces/{NAMESPACE}/aimservices", service(name, NAMESPACE, **spec))
        self.wanted[name] = replicas


def _state(obj: JsonObject) -> str:
    return str((obj.get("status") or {}).get("status") or "")


def _owner(obj: JsonObject) -> str:
    return str(obj["metadata"]["ownerReferences"][0]["name"])


def _replicas(obj: JsonObject) -> object:
    return obj["spec"]["predictor"].get("minReplicas")


def _identity(obj: JsonObject) -> tuple[str, ...]:
    return (str(obj["metadata"]["uid"]), str(obj["metadata"]["generation"]))
