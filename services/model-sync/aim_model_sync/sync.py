"""The effects that sync a source with its registries; never a secret value among their parameters."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from aim_domain import mirror_credentials, registry_readings
from aim_model_sync.candidates import FoundImages, combine, newest_first
from aim_model_sync.codes import LACKS_CREDENTIALS, TRANSIENT, Code, SelectorError, SyncCode
from aim_model_sync.conditions import some
from aim_model_sync.metrics import SyncCounts, SyncResult, result_of
from aim_model_sync.outcome import SecretsOutcome, SelectorOutcome, SyncOutcome
from aim_model_sync.pull_secrets import PullSecrets, SecretParams, SecretReader, unreachable
from aim_model_sync.schedule import RECOMMENDED_INTERVAL, sync_deadline
from aim_model_sync.selectors import Selector, SelectorText, repositories_of, resolve
from aim_model_sync.settings import ModelSyncSettings
from controller_runtime import (
    ApiModel,
    ApiVerb,
    Clients,
    EffectError,
    EffectRunner,
    EffectType,
    KubeClient,
    KubeError,
    Readings,
    Where,
    access,
)
from controller_runtime.kinds import SECRET
from oci_registry import (
    CredentialSet,
    Hubs,
    RegistryClient,
    RegistryError,
    RegistryErrorCode,
    Repository,
    SecretReason,
    open_client,
)

MAX_PARALLEL: Final = 10
"""Repositories of one wildcard that are listed at the same time (MS-142, MS-148)."""

_log: Final = structlog.get_logger(__name__)


class SyncParams(ApiModel):
    """What a sync needs.

    Attributes:
        source: name of the source, for logs.
        registry: ``spec.registry`` as written.
        interval: seconds between syncs, which bound one sync.
        attempt: 1, or more when the previous one left something to retry.
    """

    source: str
    uid: str
    generation: int
    attempt: int
    registry: str
    interval: float
    selectors: tuple[SelectorText, ...]
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a selector yielded, and what kept it from yielding more."""

    images: tuple[FoundImages, ...] = ()
    error: SelectorError | None = None
    contacted: bool = False

    @property
    def matched(self) -> int:
        """Number of images."""
        return sum(len(group.versions) for group in self.images)


class Evaluator:
    """Evaluates the selectors of one sync.

    Args:
        deadline: time of the event loop at which whatever is unfinished ends with ``Timeout`` (MS-149).
    """

    def __init__(self, client: RegistryClient, credentials: CredentialSet, deadline: float) -> None:
        self._client = client
        self._credentials = credentials
        self._deadline = deadline

    async def evaluate(self, selector: Selector) -> Evaluation:
        """The candidates of a selector; errors are values."""
        repository = selector.repository
        if not selector.is_wildcard and not selector.selects_repository(repository.path):
            return Evaluation()
        if selector.is_pinned:
            return Evaluation((FoundImages.of(repository, (selector.pinned_image.version,)),))
        try:
            if selector.is_wildcard:
                return await self._wildcard(selector)
            return await self._tags(selector, repository)
        except SelectorError as error:
            # The packages API of GitHub is not asked without a token (MS-140).
            return Evaluation(error=error, contacted=error.code is not RegistryErrorCode.MISSING_CREDENTIALS)

    async def _wildcard(self, selector: Selector) -> Evaluation:
        registry = selector.repository.registry
        async with self._bounded(registry):
            listing = await self._client.list_repositories(
                registry, self._credentials, owner=selector.owner, keep=selector.selects_repository
            )
        repositories = repositories_of(selector, listing.names)
        limit = asyncio.Semaphore(MAX_PARALLEL)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._one_of_many(selector, one, limit)) for one in repositories]
        found = [task.result() for task in tasks]
        truncated = _truncated(registry) if listing.is_truncated else None
        error = _collected(repositories, found) or truncated
        return Evaluation(tuple(group for one in found for group in one.images), error, contacted=True)

    async def _one_of_many(self, selector: Selector, repository: Repository, limit: asyncio.Semaphore) -> Evaluation:
        async with limit:
            try:
                return await self._tags(selector, repository)
            except SelectorError as error:
                return Evaluation(error=error, contacted=True)

    async def _tags(self, selector: Selector, repository: Repository) -> Evaluation:
        async with self._bounded(str(repository)):
            listing = await self._client.list_tags(repository, self._credentials, keep=selector.selects_tag)
        tags = newest_first(listing.names)
        _log.debug("listed tags", repository=str(repository), selected=len(tags))
        images = (FoundImages.of(repository, tags),) if tags else ()
        error = _truncated(str(repository)) if listing.is_truncated else None
        return Evaluation(images, error, contacted=True)

    @asynccontextmanager
    async def _bounded(self, what: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout_at(self._deadline):
                yield
        except TimeoutError as error:
            text = f"{what} was not listed within the time of one sync; raise AIM_SYNC_DEADLINE or select fewer images"
            raise SelectorError(RegistryErrorCode.TIMEOUT, text) from error
        except RegistryError as error:
            raise SelectorError(error.code, _cause(error), error.retry_after, reached=error.reached) from error


def _cause(error: RegistryError) -> str:
    if error.code is RegistryErrorCode.AUTH_FAILED:
        # Registries commonly refuse rather than admit that there is nothing (MS-282).
        return f"{error}; the repository may not exist or may be private"
    return str(error)


def _truncated(what: str) -> SelectorError:
    return SelectorError(
        RegistryErrorCode.TRUNCATED_RESULT,
        f"the listing of {what} is longer than the limit; select fewer images, or raise AIM_REGISTRY_MAX_PAGES",
    )


def _collected(repositories: Sequence[Repository], found: Iterable[Evaluation]) -> SelectorError | None:
    """One error for all listed repositories that failed, with the code of the first (MS-112, MS-113, MS-281)."""
    failed = [(one, each.error) for one, each in zip(repositories, found, strict=True) if each.error is not None]
    if not failed:
        return None
    # What can be retried decides, so that a transient failure beside a lasting one is retried too.
    first = next((error for _, error in failed if error.code in TRANSIENT), failed[0][1])
    waits = [error.retry_after for _, error in failed if error.retry_after is not None]
    names = some(one.path for one, _ in failed)
    message = f"tags of {names} could not be listed: {first}"
    # The registry has named these repositories, so it is reachable whatever became of them (FW-397).
    return SelectorError(first.code, message, max(waits, default=None), reached=True)


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

    async def __call__(self, params: SyncParams) -> SyncOutcome:
        """Evaluate all selectors.

        Raises:
            EffectError: the API server could not be asked for pull secrets; then no registry is asked (MS-370).
        """
        clock = asyncio.get_running_loop().time
        started = clock()
        try:
            outcome = await self._sync(params)
        except EffectError:
            self._counts.count_sync(SyncResult.ERROR, clock() - started)
            raise
        self._counts.count_sync(result_of(outcome), clock() - started)
        return outcome

    async def _sync(self, params: SyncParams) -> SyncOutcome:
        log = _log.bind(source=params.source, generation=params.generation, attempt=params.attempt)
        if params.interval < RECOMMENDED_INTERVAL and params.attempt == 1 and self._unclean.is_new(params):
            log.warning("syncInterval is shorter than 15 minutes; use 15m or more", seconds=params.interval)
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
            # One unexpected selector must not keep the others from being synced (MS-278).
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


@dataclass(frozen=True, slots=True)
class RegistryClients(Clients):
    """The API server and the registries.

    Attributes:
        sync_deadline: seconds that one sync may take at most (MS-149).
    """

    registries: RegistryClient
    secrets: SecretReader
    sync_deadline: float


@asynccontextmanager
async def open_clients(settings: ModelSyncSettings, kube: KubeClient) -> AsyncIterator[RegistryClients]:
    """One registry client for all sources, so that its limits per host hold for all of them (MS-253)."""
    client = RegistryClient(
        settings,
        mirror_secrets=partial(mirror_credentials, kube, settings.system_namespace),
        api_server=kube.server,
        hubs=Hubs(settings.docker_hub_api_url, settings.github_api_url),
    )
    async with open_client(client, settings.registry_config) as registries:
        yield RegistryClients(kube, registries, SecretReader(kube, settings.system_namespace), settings.sync_deadline)


def _sync_runner(clients: RegistryClients) -> SyncRunner:
    return SyncRunner(clients.registries, clients.secrets, clients.sync_deadline)


def _secret_reader(clients: RegistryClients) -> EffectRunner[SecretParams, SecretsOutcome]:
    return clients.secrets.versions


_SECRETS: Final = (access(SECRET, ApiVerb.GET, where=Where.SYSTEM_NAMESPACE),)
"""Sources have no namespace: the Secrets that they name, and those of mirrors, lie in the operator's (FW-344)."""
# Requests are limited per registry host; a hanging registry must not hold other sources up (MS-252).
SYNC: Final = EffectType("sync", SyncParams, SyncOutcome, _sync_runner, 256, _SECRETS)
"""Evaluates all selectors of a source. Its key is the source's UID: one sync at a time, one fact per source."""
PULL_SECRETS: Final = EffectType("pull-secret-versions", SecretParams, SecretsOutcome, _secret_reader, 16, _SECRETS)
"""Looks whether the pull secrets of a source have changed (FW-096)."""
