"""A whole service in a few lines, to try the runtime with: ``python -m support.tiny_service``.

For every AIMModel it looks at the image (an effect that leaves a line in the file ``TINY_LOOKS``) and writes a
ConfigMap with what it saw. Some images misbehave on purpose, by name.
"""

import asyncio
import os
import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

import structlog
from pydantic import model_validator

from aim_domain import AIMModel, DivisibleSettings
from aim_domain.kinds import AIM_MODEL
from controller_runtime import (
    FACTS,
    ApiModel,
    Category,
    Child,
    ClassifiedError,
    Clients,
    EffectRunner,
    EffectType,
    Index,
    Part,
    Plan,
    Reconciler,
    ServiceDefinition,
    Verb,
    View,
    run_service,
    writes,
)
from controller_runtime.kinds import CONFIG_MAP

NAME: Final = "tiny"
BUG: Final = "bug:1"
BROKEN: Final = "broken:1"
UNREADABLE: Final = "unreadable:1"
SLOW: Final = "slow:1"
ENDLESS: Final = "endless:1"
LOCKING: Final = "locking:1"
ENDLESS_INDEX: Final = "endless-index:1"
LOCKING_INDEX: Final = "locking-index:1"


class TinyModel(AIMModel):
    """An AIMModel that can be unreadable although the API server takes it."""

    @model_validator(mode="after")
    def _readable(self) -> "TinyModel":
        if self.spec.image == UNREADABLE:
            raise ValueError("nobody can read this")
        return self


MODELS: Final = Part("tinymodels", replace(AIM_MODEL, model=TinyModel))
CONFIG_MAPS: Final = Part("tinymaps", CONFIG_MAP, label_selector="tiny=yes")


def hold(*, in_c: bool) -> None:
    """Compute for longer than any test takes; in C no other thread gets its turn meanwhile."""
    while not in_c:
        pass
    re.fullmatch("(a|a)+", "a" * 64 + "b")


def images(model: AIMModel) -> list[str]:
    """By what models are found."""
    if model.spec.image in (ENDLESS_INDEX, LOCKING_INDEX):
        hold(in_c=model.spec.image == LOCKING_INDEX)
    return [model.spec.image or ""]


class LookParams(ApiModel):
    """Which image is looked at."""

    image: str


class Seen(ApiModel):
    """What was seen of it."""

    seen: str


async def _look(params: LookParams) -> Seen:
    image = params.image
    await asyncio.to_thread(_note, image)
    if image == SLOW:
        await asyncio.sleep(3600)
    return Seen(seen=image)


def _note(image: str) -> None:
    with Path(os.environ["TINY_LOOKS"]).open("a", encoding="utf-8") as looks:
        looks.write(f"{os.getpid()} {image}\n")


def _looker(_: Clients) -> EffectRunner[LookParams, Seen]:
    return _look


LOOK: Final = EffectType("look", LookParams, Seen, _looker, 16)


def reconcile(model: AIMModel, view: View, _now: datetime) -> Plan:
    """A ConfigMap with what was seen of the image."""
    image = model.spec.image
    if image == BUG:
        raise RuntimeError("a bug of this very object")
    if image == BROKEN:
        return Plan(
            retry=ClassifiedError(Category.INFRASTRUCTURE, "Broken", "what this very object needs does not answer")
        )
    if image in (ENDLESS, LOCKING):
        hold(in_c=image == LOCKING)
    structlog.get_logger().info("looking", image=image)
    key = f"{model.uid}/{image}"
    seen = LOOK.result_of(LOOK.look_up(view, NAME, key).value)
    if seen is None:
        return Plan(effects=(LOOK.ask(key, LookParams(image=image)),))
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": model.metadata.name, "namespace": model.namespace, "labels": {"tiny": "yes"}},
        "data": {"seen": seen.seen},
    }
    return Plan(children=(Child(CONFIG_MAPS, body),))


def definition(settings: DivisibleSettings) -> ServiceDefinition:
    """The declaration."""
    return ServiceDefinition(
        name=NAME,
        publishes=(MODELS, CONFIG_MAPS),
        consumes=(MODELS, CONFIG_MAPS, FACTS),
        reconcilers=(Reconciler(controller=NAME, part=MODELS, reconcile=reconcile),),
        indexes=(Index(MODELS, "image", images),),
        writes=(writes(CONFIG_MAPS, Verb.APPLY),),
        effects=(LOOK,),
        governs_streams=True,
        divisible=True,
        shards=settings.shards,
    )


if __name__ == "__main__":
    run_service(DivisibleSettings, definition)
