"""Evaluates one selector against its registry (MS-099…MS-113)."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import structlog

from aim_model_sync.candidates import FoundImages, newest_first
from aim_model_sync.codes import TRANSIENT, SelectorError
from aim_model_sync.selectors import Selector, repositories_of
from aim_model_sync.words import some
from oci_registry import CredentialSet, RegistryClient, RegistryError, RegistryErrorCode, Repository

MAX_PARALLEL: Final = 10
"""Repositories of one wildcard that are listed at the same time (MS-142, MS-148)."""

_log: Final = structlog.get_logger(__name__)


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
