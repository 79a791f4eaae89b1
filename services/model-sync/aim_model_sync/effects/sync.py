"""One sync: all selectors of a source at once, each with its own outcome (MS-110, MS-278)."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from aim_domain import registry_readings
from aim_model_sync.candidates import FoundImages, combine
from aim_model_sync.codes import LACKS_CREDENTIALS, TRANSIENT, Code, SelectorError, SyncCode
from aim_model_sync.effect_kinds import SyncParams
from aim_model_sync.effects.evaluation import Evaluation, Evaluator
from aim_model_sync.effects.pull_secrets import PullSecrets, SecretReader, unreachable
from aim_model_sync.metrics import SyncCounts, SyncResult, result_of
from aim_model_sync.outcome import SelectorOutcome, SyncOutcome
from aim_model_sync.schedule import RECOMMENDED_INTERVAL, sync_deadline
from aim_model_sync.selectors import Selector, SelectorText, resolve
from controller_runtime import Effect, EffectError, JsonObject, KubeError, Readings, to_json
from oci_registry import RegistryClient, SecretReason

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A selector with what came of it.

    Attributes:
        registry: canonical host; empty for a text that names none.
        at: time of the event loop when it was evaluated.
    """

    text: str
    registry: str
    evaluation: Evaluation
    at: float

    @property
    def is_lasting(self) -> bool:
        """Whether asking again soon would be in vain: it succeeded, or failed for a reason that stays (MS-255)."""
        error = self.evaluation.error
        return error is None or error.code not in TRANSIENT


class SyncRunner:
    """Runner of `SYNC`.

    Args:
        limit: seconds that one sync may take at most (MS-149).
    """

    def __init__(self, client: RegistryClient, secrets: SecretReader, limit: float) -> None:
        self._client = client
        self._secrets = secrets
        self._limit = limit
        self._unclean = UncleanSyncs()
        self._counts = SyncCounts()

    def readings(self) -> Readings:
        """Metrics of syncs and of the access to registries (MS-351)."""
        return {**self._counts.readings(), **registry_readings(self._client)}

    async def __call__(self, effect: Effect) -> JsonObject:
        """Evaluate all selectors.

        Raises:
            EffectError: the API server could not be asked for pull secrets; then no registry is asked (MS-370).
        """
        clock = asyncio.get_running_loop().time
        started = clock()
        try:
            outcome = await self._sync(SyncParams.model_validate(effect.params))
        except EffectError:
            self._counts.ended(SyncResult.ERROR, clock() - started)
            raise
        self._counts.ended(result_of(outcome), clock() - started)
        return to_json(outcome)

    async def _sync(self, params: SyncParams) -> SyncOutcome:
        log = _log.bind(source=params.source, generation=params.generation, attempt=params.attempt)
        if params.interval < RECOMMENDED_INTERVAL and params.attempt == 1 and self._unclean.is_new(params):
            log.warning(
                "syncInterval is shorter than 15 minutes; use 15m or more; use 15m or more", seconds=params.interval
            )
        try:
            secrets = await self._secrets.read_all(params.secrets)
        except KubeError as error:
            raise unreachable(error) from error
        evaluated = await self._evaluate_all(params, secrets)
        self._unclean.remember(params, evaluated)
        outcome = _outcome(params, evaluated, secrets)
        for index, one in enumerate(outcome.selectors):
            if one.code is not None:
                log.error("selector failed", index=index, selector=one.text, code=one.code, cause=one.message)
        log.info("sync completed", candidates=outcome.available, transient=outcome.is_transient)
        return outcome

    async def _evaluate_all(self, params: SyncParams, secrets: PullSecrets) -> list[Evaluated]:
        deadline = asyncio.get_running_loop().time() + sync_deadline(self._limit, params.interval)
        evaluator = Evaluator(self._client, secrets.credentials, deadline)
        done = self._unclean.reusable(params)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._evaluate(evaluator, one, params.registry, done.get(index)))
                for index, one in enumerate(params.selectors)
            ]
        return [task.result() for task in tasks]

    async def _evaluate(
        self, evaluator: Evaluator, one: SelectorText, registry: str, done: Evaluated | None
    ) -> Evaluated:
        if done is not None:
            return done
        selector: Selector | None = None
        try:
            selector = resolve(one, registry)
            evaluation = await evaluator.evaluate(selector)
        except SelectorError as error:
            evaluation = Evaluation(error=error)
        except Exception as bug:
            # One selector that nobody foresaw must not keep the others from being synced (MS-278).
            _log.exception("selector failed unexpectedly", selector=one.text)
            text = f"{type(bug).__name__}: {bug}; see the log of model-sync"
            evaluation = Evaluation(error=SelectorError(SyncCode.INTERNAL_ERROR, text))
        registry = selector.repository.registry if selector else ""
        return Evaluated(one.text, registry, evaluation, asyncio.get_running_loop().time())


class UncleanSyncs:
    """What a retry need not ask again, from the last sync of each source that has to be retried (MS-255, MS-256).

    In memory only: a restart costs the requests of one sync.

    Args:
        capacity: sources remembered.
        images: images remembered of all sources together; beyond that, the next retry asks everything again.
    """

    def __init__(self, capacity: int = 1000, images: int = 200_000) -> None:
        self._capacity = capacity
        self._images = images
        self._kept: dict[str, tuple[int, dict[int, Evaluated]]] = {}
        self._generations: dict[str, int] = {}

    def is_new(self, params: SyncParams) -> bool:
        """Whether this generation of the source has not been synced by this process before."""
        return self._generations.get(params.uid) != params.generation

    def remember(self, params: SyncParams, evaluated: Sequence[Evaluated]) -> None:
        """Keep the lasting results if there are others; nothing when there is nothing to retry."""
        self._kept.pop(params.uid, None)
        self._generations.pop(params.uid, None)
        self._generations[params.uid] = params.generation
        lasting = {index: one for index, one in enumerate(evaluated) if one.is_lasting}
        if len(lasting) < len(evaluated):
            self._kept[params.uid] = (params.generation, lasting)
        for known in (self._kept, self._generations):
            while len(known) > self._capacity:
                # Dictionaries keep insertion order: the first is the one not synced for longest.
                del known[next(iter(known))]
        while self._size > self._images:
            del self._kept[next(iter(self._kept))]

    @property
    def _size(self) -> int:
        return sum(one.evaluation.matched for _, kept in self._kept.values() for one in kept.values())

    def reusable(self, params: SyncParams) -> dict[int, Evaluated]:
        """Results that a retry takes over, by selector index.

        None of them gets older than the interval: one registry that is down for days must not keep the images of
        the others from being found.
        """
        generation, kept = self._kept.get(params.uid, (0, {}))
        if params.attempt == 1 or generation != params.generation:
            return {}
        since = asyncio.get_running_loop().time() - params.interval
        return {index: one for index, one in kept.items() if one.at > since}


def _outcome(params: SyncParams, evaluated: Sequence[Evaluated], secrets: PullSecrets) -> SyncOutcome:
    candidates = combine([one.evaluation.images for one in evaluated])
    waits = [one.evaluation.error.retry_after for one in evaluated if one.evaluation.error is not None]
    return SyncOutcome(
        generation=params.generation,
        attempt=params.attempt,
        selectors=tuple(
            _selector(one, own, secrets) for one, own in zip(evaluated, candidates.by_selector, strict=True)
        ),
        available=candidates.size,
        secrets=secrets.versions,
        secret_problems=secrets.problems,
        retry_after=max((wait for wait in waits if wait is not None), default=None),
    )


def _selector(one: Evaluated, own: Sequence[FoundImages], secrets: PullSecrets) -> SelectorOutcome:
    error = one.evaluation.error
    code, message = _explained(error, secrets)
    return SelectorOutcome(
        text=one.text,
        code=code,
        message=message,
        registry=one.registry,
        contacted=one.evaluation.contacted,
        reached=error is not None and error.reached,
        matched=one.evaluation.matched,
        found=tuple(own),
    )


_BECAUSE_OF_SECRET: Final = {
    SecretReason.INVALID: SyncCode.SECRET_INVALID,
    SecretReason.ACCESS_FAILED: SyncCode.SECRET_ACCESS_FAILED,
}


def _explained(error: SelectorError | None, secrets: PullSecrets) -> tuple[Code | None, str]:
    """Code and message; a refusal is blamed on the pull secret that could not be used (MS-165…MS-167)."""
    if error is None:
        return None, ""
    if error.code not in LACKS_CREDENTIALS or not secrets.problems:
        return error.code, str(error)
    codes = (_BECAUSE_OF_SECRET.get(problem.reason) for problem in secrets.problems)
    code = next((one for one in codes if one is not None), error.code)
    return code, f"{'; '.join(problem.message for problem in secrets.problems)}; {error}"
