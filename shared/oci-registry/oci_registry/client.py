"""The registry client of model-sync and discovery: one operation, all endpoints in order (FW-384, FW-395)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Never, Self, TypeVar

import structlog

from controller_runtime import StartError
from oci_registry.authorization import CATALOG_SCOPE, Authorizer, pull_scope
from oci_registry.credentials import ANONYMOUS, Credential, CredentialSet
from oci_registry.endpoints import Endpoint, Failure, combined_error, endpoints_for
from oci_registry.errors import RegistryError, RegistryErrorCode
from oci_registry.hubs import Hubs, list_docker_hub, list_github_packages
from oci_registry.image_reference import DOCKER_HUB, ImageReference, Repository, canonical_registry
from oci_registry.inspection import InspectionMemory
from oci_registry.listing import Keep, Listing, everything, list_catalog, list_tags
from oci_registry.manifests import ImageConfig
from oci_registry.mirrors import InvalidRegistriesFileError, Registries, load_registries
from oci_registry.session import SchemeMemory, Session
from oci_registry.settings import RegistrySettings
from oci_registry.traffic import TransportStatistics
from oci_registry.transport import Transport

GHCR: Final = "ghcr.io"
INSPECTION_SECONDS: Final = 30.0
"""Usual limit of one complete image inspection at one endpoint (DI-088)."""

Result = TypeVar("Result")
MirrorSecrets = Callable[[str], Awaitable[CredentialSet]]
"""Reads a pull secret of the operator namespace by name (FW-392); a missing one is empty."""

_log: Final = structlog.get_logger(__name__)


async def _no_mirror_secrets(_name: str) -> CredentialSet:
    return ANONYMOUS


class RegistryClient:
    """Lists repositories and tags and reads image configurations, through mirrors where they are configured."""

    def __init__(
        self,
        settings: RegistrySettings,
        registries: Registries | None = None,
        *,
        mirror_secrets: MirrorSecrets = _no_mirror_secrets,
        hubs: Hubs | None = None,
        inspection_timeout: float = INSPECTION_SECONDS,
        api_server: str | None = None,
    ) -> None:
        """``api_server`` is its URL: no request goes there, whatever a registry or a user names (FW-591)."""
        self._settings = settings
        self._registries = registries or Registries()
        self._mirror_secrets = mirror_secrets
        self._hubs = hubs or Hubs()
        self._inspection_timeout = inspection_timeout
        self._transport = Transport(settings, api_server)
        self._authorizer = Authorizer(self._transport, settings.registry_realm_allowlist)
        self._schemes = SchemeMemory(self._transport)
        self._inspections = InspectionMemory()
        self._warned: set[Endpoint] = set()

    async def __aenter__(self) -> Self:
        """Open the connection pool."""
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections."""
        await self._transport.__aexit__(kind, error, trace)

    def use(self, registries: Registries) -> None:
        """Take a new configuration for all operations that start from now on (FW-395)."""
        self._registries = registries

    def statistics(self) -> TransportStatistics:
        """A snapshot of request counts and announced waits per endpoint host."""
        return self._transport.statistics()

    @property
    def insecure_endpoints(self) -> int:
        """How many endpoints without certificate check or TLS have been used since the start (FW-387)."""
        return len(self._warned)

    async def list_tags(
        self, repository: Repository, credentials: CredentialSet = ANONYMOUS, *, keep: Keep = everything
    ) -> Listing:
        """The tags of a repository that are to be kept (MS-114…MS-120).

        Raises:
            RegistryError: with the code of MS-261.
        """
        scope_path = repository.path

        async def ask(endpoint: Endpoint) -> Listing:
            session = await self._session(endpoint, scope_path, credentials)
            return await list_tags(session, scope_path, max_pages=self._settings.registry_max_pages, keep=keep)

        return await self._first_answer(repository.registry, ask)

    async def list_repositories(
        self,
        registry: str,
        credentials: CredentialSet = ANONYMOUS,
        *,
        owner: str | None = None,
        keep: Keep = everything,
    ) -> Listing:
        """Repositories of a registry for wildcard selectors (MS-103…MS-105, FW-391).

        Args:
            registry: host in any spelling.
            credentials: of the object's pull secrets.
            owner: the literal first path component; needed on `docker.io` and `ghcr.io`, which list per owner.
            keep: which of the names are wanted.

        Raises:
            RegistryError: with the code of MS-261.
            ValueError: no owner where the registry needs one (`WildcardNamespaceRequired` is the caller's check).
        """
        canonical = canonical_registry(registry)
        if canonical in (DOCKER_HUB, GHCR) and not owner:
            raise ValueError(f"{canonical} lists repositories per owner; give the first path component")

        async def ask(endpoint: Endpoint) -> Listing:
            if not endpoint.is_mirror and owner and canonical == DOCKER_HUB:
                return await self._list_docker_hub(owner, keep)
            if not endpoint.is_mirror and owner and canonical == GHCR:
                return await self._list_github(owner, credentials, keep)
            session = await self._session(endpoint, None, credentials)
            return await list_catalog(session, max_pages=self._settings.registry_max_pages, keep=keep)

        return await self._first_answer(canonical, ask)

    async def image_config(self, image: ImageReference, credentials: CredentialSet = ANONYMOUS) -> ImageConfig:
        """Labels and environment of an image; each endpoint gets the inspection timeout (DI-082…DI-089).

        Raises:
            RegistryError: its `category` is the one of DI-090.
        """

        async def ask(endpoint: Endpoint) -> ImageConfig:
            limit = self._inspection_timeout
            try:
                async with asyncio.timeout(limit):
                    session = await self._session(endpoint, image.repository.path, credentials)
                    return await self._inspections.inspect(session, image)
            except TimeoutError as error:
                raise RegistryError(
                    RegistryErrorCode.TIMEOUT,
                    f"{endpoint} did not answer the inspection of {image} within {limit:g} s; "
                    "check the network path, or raise --inspection-timeout",
                ) from error

        return await self._first_answer(image.repository.registry, ask)

    async def _first_answer(self, registry: str, ask: Callable[[Endpoint], Awaitable[Result]]) -> Result:
        # An operation that breaks midway starts over at the next endpoint; results are never combined (FW-388).
        failures: list[Failure] = []
        for endpoint in endpoints_for(registry, self._registries, self._settings.docker_registry_url):
            self._warn_once(endpoint)
            try:
                return await ask(endpoint)
            except RegistryError as error:
                failures.append((endpoint, error))
                _log.debug("registry endpoint failed", registry=registry, endpoint=str(endpoint), code=error.code)
        raise combined_error(registry, failures)

    async def _session(self, endpoint: Endpoint, repository: str | None, credentials: CredentialSet) -> Session:
        named = endpoint.prefix if repository is None else endpoint.repository_name(repository)
        return Session(
            endpoint,
            CATALOG_SCOPE if repository is None else pull_scope(named),
            await self._credential(endpoint, named, credentials),
            self._transport,
            self._authorizer,
            self._schemes,
        )

    async def _credential(self, endpoint: Endpoint, repository: str, credentials: CredentialSet) -> Credential | None:
        own = credentials.find(endpoint.credential_host, repository)
        if own is not None or endpoint.secret_name is None:
            return own
        return (await self._mirror_secrets(endpoint.secret_name)).find(endpoint.credential_host, repository)

    async def _list_docker_hub(self, owner: str, keep: Keep) -> Listing:
        return await list_docker_hub(
            self._transport,
            self._hubs.docker,
            owner,
            max_pages=self._settings.registry_max_pages,
            keep=keep,
        )

    async def _list_github(self, owner: str, credentials: CredentialSet, keep: Keep) -> Listing:
        credential = credentials.find_host(GHCR)
        if credential is None or not credential.password:
            raise RegistryError(
                RegistryErrorCode.MISSING_CREDENTIALS,
                "listing packages of ghcr.io needs a token: add a pull secret for ghcr.io with scope read:packages",
            )
        return await list_github_packages(
            self._transport,
            self._hubs.github,
            owner,
            credential,
            max_pages=self._settings.registry_max_pages,
            keep=keep,
        )

    def _warn_once(self, endpoint: Endpoint) -> None:
        if endpoint.is_insecure and endpoint not in self._warned:
            self._warned.add(endpoint)
            _log.warning("registry endpoint is used without TLS", registry=endpoint.registry, endpoint=str(endpoint))


INTERVAL: Final = 30.0
"""Seconds between two readings; a change is in force within 60 s."""


class RegistriesFile:
    """Keeps a client on the newest valid content of the file.

    Attributes:
        failures: readings that left the former configuration in force, for metrics.
    """

    def __init__(self, path: Path, client: RegistryClient, *, interval: float = INTERVAL) -> None:
        self._path = path
        self._client = client
        self._interval = interval
        self.failures = 0

    async def follow(self) -> Never:
        """Read again and again until cancelled."""
        while True:
            await self.read()
            await asyncio.sleep(self._interval)

    async def read(self) -> None:
        """Read once; an unusable file is logged and changes nothing."""
        try:
            registries = await asyncio.to_thread(load_registries, self._path)
        except InvalidRegistriesFileError as error:
            self.failures += 1
            _log.error("registry configuration cannot be used; keeping the previous one", error=str(error))
        else:
            self._client.use(registries)


@asynccontextmanager
async def open_client(client: RegistryClient, path: Path | None) -> AsyncIterator[RegistryClient]:
    """The client, open, and following the configuration file if there is one.

    Raises:
        StartError: the file cannot be used at the start.
    """
    try:
        client.use(await asyncio.to_thread(load_registries, path))
    except InvalidRegistriesFileError as error:
        raise StartError(str(error)) from error
    async with client, asyncio.TaskGroup() as group:
        follower = None if path is None else group.create_task(RegistriesFile(path, client).follow())
        yield client
        if follower is not None:
            follower.cancel()
