"""Model sources: builders, a scene in which a pass decides, and one in which it is carried out."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self

from support.builders import condition, fact, make
from support.deciding import decide
from support.live import Live

from aim_domain.kinds import AIM_CLUSTER_MODEL, AIM_CLUSTER_MODEL_SOURCE
from aim_domain.parts import MODEL_SOURCES
from aim_model_sync import SERVICE_NAME
from aim_model_sync.candidates import FoundImages
from aim_model_sync.outcome import SelectorOutcome, SyncOutcome
from aim_model_sync.service import definition
from aim_model_sync.settings import ModelSyncSettings
from aim_model_sync.sync import SYNC
from controller_runtime import Category, ClassifiedError, JsonObject, Plan, to_json
from controller_runtime.testing import NOW, BuiltCache, cache_of

DEFINITION = definition(ModelSyncSettings(system_namespace="aim-system"))
RECONCILER = DEFINITION.reconcilers[0]
FINISHED = NOW - timedelta(seconds=1)
BROKEN = ClassifiedError(Category.INFRASTRUCTURE, "ServiceUnavailable", "create of AIMClusterModel x failed: 503")


def source(status: JsonObject | None = None, name: str = "catalog", **more: Any) -> JsonObject:
    spec = {"filters": [{"image": "org/a"}, {"image": "org/b"}], **more.pop("spec", {})}
    spec = {key: value for key, value in spec.items() if value is not None}
    return make(AIM_CLUSTER_MODEL_SOURCE, name, spec=spec, status=status or {}, **more)


def syncing(since: datetime = NOW - timedelta(minutes=1)) -> JsonObject:
    return {"status": "Progressing", "conditions": [condition("Syncing", True, "SyncInProgress", since=since)]}


def found(*images: str, registry: str = "docker.io") -> tuple[FoundImages, ...]:
    parts = [image.partition(":") for image in images]
    return tuple(
        FoundImages(registry=registry, repository=name, versions=tuple(tags.split(","))) for name, _, tags in parts
    )


def selected(text: str, *images: str, code: str | None = None, **more: Any) -> SelectorOutcome:
    own = found(*images)
    matched = sum(len(one.versions) for one in own)
    about = {"registry": "docker.io", "contacted": True, "matched": matched, "found": own, **more}
    return SelectorOutcome.model_validate({"text": text, "code": code, "message": "why" if code else "", **about})


def outcome(*selectors: SelectorOutcome, **more: Any) -> SyncOutcome:
    size = sum(len(one.versions) for selector in selectors for one in selector.found)
    return SyncOutcome(**{"generation": 1, "selectors": selectors, "available": size, **more})


def model(image: str, name: str = "", labels: dict[str, str] | None = None, **more: Any) -> JsonObject:
    label = {"aim.eai.amd.com/model-source": "catalog"} if labels is None else labels
    return make(
        AIM_CLUSTER_MODEL,
        name or image.replace("/", "-").replace(":", "-"),
        labels=label,
        spec={"image": image},
        **more,
    )


@dataclass
class Scene:
    """A source in a cache, and what a pass decides there."""

    obj: JsonObject
    others: tuple[JsonObject, ...] = ()
    cache: BuiltCache = field(init=False)

    def __post_init__(self) -> None:
        self.cache = cache_of(DEFINITION.consumes, self.obj, *self.others, indexes=DEFINITION.indexes)

    def reconcile(self, now: datetime = NOW, failure: ClassifiedError | None = None) -> Plan:
        name = self.obj["metadata"]["name"]
        return decide(RECONCILER, self.cache.object(MODEL_SOURCES, "", name), self.cache.view(failure), now)

    def synced(self, result: SyncOutcome, when: datetime = FINISHED) -> Self:
        body = fact(
            SERVICE_NAME,
            SYNC.name,
            self.obj["metadata"]["uid"],
            self.obj,
            MODEL_SOURCES,
            outcome=to_json(result),
            observed=when,
        )
        self.cache.put(facts_part(), body)
        return self


class AtWork(Scene):
    """The source in a cluster in which the service works."""

    def __post_init__(self) -> None:
        self.cache = self.live = Live(DEFINITION, self.obj, *self.others)

    def carry_out(self, now: datetime | None = None) -> Self:
        """One pass, now or then."""
        self.live.until(now or self.live.now)
        self.live.run(MODEL_SOURCES, self.obj["metadata"]["name"])
        return self


def facts_part() -> Any:
    return next(part for part in DEFINITION.consumes if part.name == "facts")


def cond(plan: Plan, type_: str) -> tuple[str, str]:
    assert plan.status is not None
    one = next(entry for entry in plan.status["conditions"] if entry["type"] == type_)
    return one["status"], one["reason"]


def message(plan: Plan, type_: str) -> str:
    assert plan.status is not None
    return str(next(entry for entry in plan.status["conditions"] if entry["type"] == type_)["message"])


def images(plan: Plan) -> list[str]:
    return [child.body["spec"]["image"] for child in plan.children]


def sync_of(plan: Plan) -> JsonObject:
    effect = next(effect for effect in plan.effects if effect.kind == SYNC.name)
    return effect.params
