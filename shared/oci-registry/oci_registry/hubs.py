"""Repository listing where a registry has no catalog: Docker Hub and GitHub (MS-130…MS-141)."""

from dataclasses import dataclass
from typing import Final

from yarl import URL

from controller_runtime import JsonObject
from oci_registry.credentials import Credential
from oci_registry.errors import RegistryError, RegistryErrorCode, code_of_status
from oci_registry.listing import Keep, Listing, everything
from oci_registry.manifests import parse_object
from oci_registry.transport import Request, Response, Transport

DOCKER_HUB_API: Final = "https://hub.docker.com"
GITHUB_API: Final = "https://api.github.com"
HUB_PAGE_SIZE: Final = 100
GITHUB_PAGE_SIZE: Final = 100


@dataclass(frozen=True, slots=True)
class Hubs:
    """Base addresses of the listing APIs (MS-156)."""

    docker: str = DOCKER_HUB_API
    github: str = GITHUB_API


async def list_docker_hub(
    transport: Transport, api_url: str, namespace: str, *, max_pages: int, keep: Keep = everything
) -> Listing:
    """Public repositories of a Docker Hub namespace, as `<namespace>/<name>`; always anonymous (MS-134).

    Raises:
        RegistryError: `NotFound` naming the namespace; else as any request.
    """
    url = URL(f"{api_url}/v2/namespaces/{namespace}/repositories").with_query(page_size=HUB_PAGE_SIZE)
    origin, names = url.origin(), list[str]()
    for _ in range(max_pages):
        response = await transport.send(Request(url, is_revalidated=True))
        _check(response, f"Docker Hub namespace {namespace!r}")
        what = f"the repository list of Docker Hub namespace {namespace!r}"
        page = parse_object(response.body, what)
        names += filter(keep, (f"{namespace}/{name}" for name in _names(page.get("results"), what)))
        following = page.get("next")
        if not following:
            return Listing(tuple(names))
        url = _same_origin(str(following), origin, what)
    return Listing(tuple(names), is_truncated=True)


async def list_github_packages(
    transport: Transport, api_url: str, owner: str, credential: Credential, *, max_pages: int, keep: Keep = everything
) -> Listing:
    """Container packages of an organisation, or else of a user, as `<owner>/<package>` (MS-137, MS-139).

    Raises:
        RegistryError: `NotFound` naming the owner; else as any request.
    """

    async def list_packages(kind: str) -> Listing:
        address = f"{api_url}/{kind}/{owner}/packages"
        return await _github_pages(transport, address, owner, credential, max_pages=max_pages, keep=keep)

    try:
        return await list_packages("orgs")
    except RegistryError as error:
        if error.code is not RegistryErrorCode.NOT_FOUND:
            raise
    return await list_packages("users")


async def _github_pages(
    transport: Transport, address: str, owner: str, credential: Credential, *, max_pages: int, keep: Keep
) -> Listing:
    headers = {
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
        "Authorization": f"Bearer {credential.password}",
    }
    names: list[str] = []
    for page in range(1, max_pages + 1):
        url = URL(address).with_query(package_type="container", per_page=GITHUB_PAGE_SIZE, page=page)
        response = await transport.send(Request(url, headers, is_revalidated=True))
        _check(response, f"GitHub owner {owner!r}")
        what = f"the package list of GitHub owner {owner!r}"
        # The answer is a bare array; it is wrapped because only objects are decoded.
        found = _names(parse_object(b'{"packages":' + response.body + b"}", what).get("packages"), what)
        names += filter(keep, (f"{owner}/{name}" for name in found))
        if len(found) < GITHUB_PAGE_SIZE:
            return Listing(tuple(names))
    return Listing(tuple(names), is_truncated=True)


def _check(response: Response, what: str) -> None:
    if response.status >= 400:
        raise RegistryError(
            code_of_status(response.status),
            f"{what}: {response.authority} answered HTTP {response.status}",
            status=response.status,
        )


def _names(entries: object, what: str) -> list[str]:
    if not isinstance(entries, list) or not all(_is_named(entry) for entry in entries):
        raise RegistryError(RegistryErrorCode.INVALID_RESPONSE, f"{what} has the wrong shape")
    return [entry["name"] for entry in entries]


def _is_named(entry: JsonObject | object) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("name"), str)


def _same_origin(following: str, origin: URL, what: str) -> URL:
    try:
        url = URL(following, encoded=True)
        if url.origin() == origin:
            return url
    except ValueError as error:
        raise RegistryError(
            RegistryErrorCode.INVALID_RESPONSE, f"{what} continues at an invalid URL: {error}"
        ) from error
    raise RegistryError(RegistryErrorCode.INVALID_RESPONSE, f"{what} continues on another origin than {origin}")
