"""What a request asks for: the parts of a resource path, the verb and the options in its query."""

from dataclasses import dataclass
from typing import Final

from aim_local.apiserver import status
from aim_local.apiserver.http import Request
from aim_local.apiserver.objects.errors import FieldError, FieldErrorKind
from aim_local.apiserver.reading import DEFAULT_WATCH_SECONDS, ListOptions, VersionMatch
from aim_local.apiserver.resources import Key, ResourceType
from aim_local.apiserver.selectors import matcher
from aim_local.apiserver.writing import FieldValidation, WriteContext

_NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})
_VERBS: Final = {
    ("GET", True): "get",
    ("GET", False): "list",
    ("POST", False): "create",
    ("POST", True): "create",
    ("PUT", True): "update",
    ("PATCH", True): "patch",
    ("DELETE", True): "delete",
    ("DELETE", False): "deletecollection",
}


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed resource path."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> Key:
        """The store key; its name is "" for a collection."""
        return (self.namespace, self.name)


def parse_target(path: str) -> Target | None:
    """The target of an `/api/v1/…` or `/apis/<group>/<version>/…` path; None for any other path."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and not (len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        return None
    plural, name, subresource = [*rest, "", ""][:3]
    return Target(group, version, plural, namespace, name, subresource)


def verb_of(request: Request, target: Target) -> str:
    """The Kubernetes verb of a request, "" if the method does not fit the path."""
    verb = _VERBS.get((request.method, bool(target.name)), "")
    return "watch" if verb == "list" and request.flag("watch") else verb


def list_options(request: Request, resource: ResourceType, target: Target) -> ListOptions:
    """The options of a list, watch or deletecollection.

    Raises:
        ApiError: a malformed selector or option.
    """
    query = request.query
    fields = query.get("fieldSelector", "")
    watching = request.flag("watch")
    initial = request.flag("sendInitialEvents") if "sendInitialEvents" in query else None
    match = (
        VersionMatch(query.get("resourceVersionMatch", ""))
        if _known_match(query.get("resourceVersionMatch", ""))
        else None
    )
    if match is None:
        raise _invalid_option("resourceVersionMatch", "supported values: Exact, NotOlderThan")
    if watching:
        _check_initial_events(initial, match, bookmarks=request.flag("allowWatchBookmarks"))
    elif match and not query.get("resourceVersion"):
        raise _invalid_option(
            "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
    return ListOptions(
        namespace=target.namespace,
        matcher=matcher(resource, query.get("labelSelector", ""), fields),
        revision=query.get("resourceVersion", ""),
        match=match,
        limit=_number(query.get("limit", "")),
        continued=query.get("continue", ""),
        timeout_seconds=_number(query.get("timeoutSeconds", "")) or DEFAULT_WATCH_SECONDS,
        bookmarks=request.flag("allowWatchBookmarks"),
        send_initial_events=initial,
    )


def _known_match(text: str) -> bool:
    return text in {str(match) for match in VersionMatch}


def _check_initial_events(initial: bool | None, match: VersionMatch, *, bookmarks: bool) -> None:
    if initial is None:
        if match:
            raise _invalid_option(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            )
        return
    if match is not VersionMatch.NOT_OLDER_THAN:
        raise _invalid_option(
            "resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        )
    if initial and not bookmarks:
        raise _invalid_option("sendInitialEvents", "sendInitialEvents requires allowWatchBookmarks")


def _invalid_option(path: str, detail: str) -> status.ApiError:
    error = FieldError(path, FieldErrorKind.FORBIDDEN, detail)
    message = f'ListOptions.meta.k8s.io "" is invalid: {error}'
    details = {"group": "meta.k8s.io", "kind": "ListOptions", "causes": [error.cause()]}
    return status.ApiError(422, status.Reason.INVALID, message, details)


def _number(text: str) -> int:
    if text and not text.isdigit():
        raise status.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text or 0)


def user_agent(request: Request) -> str:
    """The product part of the User-Agent header."""
    return request.headers.get("user-agent", "unknown").split("/")[0].split(" ")[0] or "unknown"


def field_manager(request: Request) -> str:
    """The field manager of a write: the one named, else the client's product name."""
    return request.query.get("fieldManager") or user_agent(request)


def write_context(request: Request) -> WriteContext:
    """The options of a write.

    Raises:
        ApiError: 400 or 422 for an unknown option value.
    """
    validation = request.query.get("fieldValidation", "") or FieldValidation.WARN
    if validation not in set(FieldValidation):
        raise status.bad_request(f'invalid fieldValidation "{validation}": use Ignore, Warn or Strict')
    return WriteContext(
        manager=field_manager(request),
        validation=FieldValidation(validation),
        dry_run=is_dry_run(request.query.get("dryRun", "")),
        force=request.flag("force"),
    )


def is_dry_run(text: str) -> bool:
    """True for `All`, False for nothing.

    Raises:
        ApiError: 400 for anything else.
    """
    if text not in ("", "All"):
        raise status.bad_request(f'invalid dryRun "{text}": the only supported value is "All"')
    return text == "All"
