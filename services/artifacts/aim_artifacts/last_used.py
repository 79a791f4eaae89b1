"""When a model that uses an artifact was last deployed (AR-425…AR-427)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from aim_artifacts.annotations import Annotation
from aim_artifacts.indexes import AS_CREATED, ClaimUse
from aim_domain import AIMArtifact, labels
from controller_runtime import ApiModel, Time, canonical, loads, to_json


class SeenWorkload(ApiModel):
    """A generation that an InferenceService was changed to, and when that was seen."""

    generation: int = AS_CREATED
    seen: Time | None = None


@dataclass(frozen=True, slots=True)
class LastUse:
    """When an artifact was last used, and what to write down so that a change is seen only once."""

    moment: datetime | None
    annotations: tuple[Annotation, ...] = ()


def last_use(artifact: AIMArtifact, uses: Iterable[ClaimUse], now: datetime | None) -> LastUse:
    """The latest creation or change of an InferenceService that mounts the artifact; never before what is stored.

    The generations stand in an annotation with their moments: written before the status, and enough to write it again.

    Args:
        now: ``None`` while nothing can be written down: then a change is seen later, lest every pass see it anew.
    """
    known, present = _known(artifact), list(uses)
    seen = {use.uid: _seen(use, known.get(use.uid), now) for use in present if use.uid}
    changed = {uid: one for uid, one in seen.items() if one.generation != AS_CREATED}
    moments = [artifact.status.last_used, *(one.seen for one in changed.values())]
    moments += [use.created for use in present]
    moment = max((one for one in moments if one is not None), default=None)
    # Of workloads that are gone nothing is remembered, but forgetting alone is no reason to write.
    is_news = any(known.get(uid) != one for uid, one in changed.items())
    return LastUse(moment, (_annotation(changed),) if is_news else ())


def _seen(use: ClaimUse, known: SeenWorkload | None, now: datetime | None) -> SeenWorkload:
    known = known or SeenWorkload()
    if now is None or known.generation == use.generation:
        return known
    # Whole seconds, as they are stored: what is read back is what was decided with.
    return SeenWorkload(generation=use.generation, seen=now.astimezone(UTC).replace(microsecond=0))


def _known(artifact: AIMArtifact) -> Mapping[str, SeenWorkload]:
    text = artifact.metadata.annotations.get(labels.ANNOTATION_WORKLOAD_GENERATIONS)
    try:
        return {} if text is None else {uid: SeenWorkload.model_validate(one) for uid, one in loads(text).items()}
    except (ValueError, AttributeError):
        return {}


def _annotation(seen: Mapping[str, SeenWorkload]) -> Annotation:
    text = canonical({uid: to_json(one) for uid, one in seen.items()}).decode()
    return Annotation(labels.ANNOTATION_WORKLOAD_GENERATIONS, text, "a workload that mounts it has changed")
