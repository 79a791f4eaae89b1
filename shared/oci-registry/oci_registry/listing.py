"""Paged lists of a registry: tags and the repository catalog (MS-114…MS-117, MS-144…MS-146)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from yarl import URL

from oci_registry.endpoints import Endpoint
from oci_registry.errors import RegistryError, RegistryErrorCode
from oci_registry.manifests import parse_object
from oci_registry.session import Session
from oci_registry.transport import Response, next_page

PAGE_SIZE: Final = 1000
"""Entries asked for per page; some registries reject more (MS-115)."""

_TOO_LARGE_A_PAGE: Final = "PAGINATION_NUMBER_INVALID"
_NO_CATALOG: Final = frozenset({404, 405, 501})


Keep = Callable[[str], bool]
"""Whether a name is wanted. What is not is dropped page by page, so that memory follows what is selected."""


def everything(_name: str) -> bool:
    """Keeps every name."""
    return True


@dataclass(frozen=True, slots=True)
class Listing:
    """Names in the order that the registry gave them."""

    names: tuple[str, ...]
    is_truncated: bool = False
    """A cap was reached, so names are missing (MS-153, `TruncatedResult`)."""


async def list_tags(session: Session, repository: str, *, max_pages: int, keep: Keep = everything) -> Listing:
    """The tags of a repository; `tags: null` is an empty list (MS-109).

    Raises:
        RegistryError: the repository does not exist, may not be read, or the registry fails.
    """
    path = session.endpoint.repository_path(repository, "tags/list")
    return await _all_pages(session, path, lambda response: list(filter(keep, _tags(response))), max_pages)


async def list_catalog(session: Session, *, max_pages: int, keep: Keep = everything) -> Listing:
    """The repositories below the endpoint's prefix, without it (FW-391).

    Raises:
        RegistryError: `WildcardUnsupported` when there is no catalog; else as any request.
    """
    endpoint = session.endpoint
    prefix = f"{endpoint.prefix}/" if endpoint.prefix else ""

    def names_below(response: Response) -> list[str]:
        below = (name.removeprefix(prefix) for name in _repositories(response) if name.startswith(prefix))
        return list(filter(keep, below))

    try:
        return await _all_pages(session, f"{endpoint.root}/_catalog", names_below, max_pages)
    except RegistryError as error:
        raise _catalog_error(endpoint, error) from error


async def _all_pages(session: Session, path: str, parse: Callable[[Response], list[str]], max_pages: int) -> Listing:
    try:
        return await _pages_from(session, await session.url(path, n=PAGE_SIZE), parse, max_pages)
    except RegistryError as error:
        if error.registry_code != _TOO_LARGE_A_PAGE:
            raise
    # The registry allows fewer per page and does not say how many: its own default is what it allows (MS-115).
    return await _pages_from(session, await session.url(path), parse, max_pages)


async def _pages_from(session: Session, url: URL, parse: Callable[[Response], list[str]], max_pages: int) -> Listing:
    names: list[str] = []
    for _ in range(max_pages):
        try:
            response = await session.get(url)
        except RegistryError as error:
            if error.code is RegistryErrorCode.TRUNCATED_RESULT:
                break
            raise
        names += parse(response)
        following = _next_page(session.endpoint, response, url)
        if following is None:
            return Listing(tuple(names))
        url = following
    return Listing(tuple(names), is_truncated=True)


def _next_page(endpoint: Endpoint, response: Response, current: URL) -> URL | None:
    try:
        following = next_page(response.headers.getall("Link", []), current)
        if following is None or following.origin() == current.origin():
            return following
    except ValueError as error:
        raise RegistryError(
            RegistryErrorCode.INVALID_RESPONSE, f"{endpoint} names a next page that is no URL: {error}"
        ) from error
    raise RegistryError(
        RegistryErrorCode.INVALID_RESPONSE,
        f"{endpoint} names a next page on another origin than {current.origin()}",
    )


def _tags(response: Response) -> list[str]:
    what = _name_of(response)
    return _strings(parse_object(response.body, what).get("tags") or [], what)


def _repositories(response: Response) -> list[str]:
    what = _name_of(response)
    try:
        return _strings(parse_object(response.body, what).get("repositories"), what)
    except RegistryError as error:
        # A registry without catalog may answer this path with something else, such as its web page (MS-146).
        raise RegistryError(RegistryErrorCode.WILDCARD_UNSUPPORTED, str(error)) from error


def _strings(names: object, what: str) -> list[str]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise RegistryError(RegistryErrorCode.INVALID_RESPONSE, f"{what} has no list of names")
    return names


def _name_of(response: Response) -> str:
    return f"the answer of {response.authority} to {response.url.path}"


def _catalog_error(endpoint: Endpoint, error: RegistryError) -> RegistryError:
    if error.code is RegistryErrorCode.AUTH_FAILED:
        message = f"{error}; many registries restrict catalog listing to administrators: list repositories explicitly"
        return RegistryError(error.code, message, status=error.status)
    unsupported = error.code is RegistryErrorCode.WILDCARD_UNSUPPORTED
    if unsupported or error.status in _NO_CATALOG or error.registry_code == "UNSUPPORTED":
        return RegistryError(
            RegistryErrorCode.WILDCARD_UNSUPPORTED,
            f"{endpoint} cannot list its repositories ({error}); list repositories explicitly",
            status=error.status,
        )
    return error
