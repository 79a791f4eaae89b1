"""What a request asks for: the parts of a resource path, the verb and the options in its query."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from embedded_apiserver import status
from embedded_apiserver.http import Request
from embedded_apiserver.objects.errors import FieldError, FieldErrorKind
from embedded_apiserver.reading import DEFAULT_WATCH_SECONDS, ListOptions, VersionMatch, matcher
from embedded_apiserver.resources import Key, ResourceType
from embedded_apiserver.writing import FieldValidation, WriteContext

_MAX_MANAGER: Final = 128
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
    match = _version_match(query.get("resourceVersionMatch", ""))
    revision = query.get("resourceVersion", "")
    if watching:
        _check_initial_events(initial, match)
    else:
        _check_list(initial, match, revision)
    return ListOptions(
        namespace=target.namespace,
        matcher=matcher(resource, query.get("labelSelector", ""), fields),
        revision=revision,
        match=match,
        limit=_number(query.get("limit", "")),
        continued=query.get("continue", ""),
        timeout_seconds=_number(query.get("timeoutSeconds", "")) or DEFAULT_WATCH_SECONDS,
        bookmarks=request.flag("allowWatchBookmarks"),
        send_initial_events=initial,
        as_of=request.as_of,
    )


def _version_match(text: str) -> VersionMatch:
    if text not in set(VersionMatch):
        detail = 'supported values: "Exact", "NotOlderThan", ""'
        raise _refusal(FieldError("resourceVersionMatch", FieldErrorKind.NOT_SUPPORTED, detail, text))
    return VersionMatch(text)


def _check_list(initial: bool | None, match: VersionMatch, revision: str) -> None:
    if initial is not None:
        raise _forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")
    if match and not revision:
        raise _forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match is VersionMatch.EXACT and revision == "0":
        raise _forbidden("resourceVersionMatch", 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')


def _check_initial_events(initial: bool | None, match: VersionMatch) -> None:
    if initial is None:
        if match:
            raise _forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            )
    elif match is not VersionMatch.NOT_OLDER_THAN:
        raise _forbidden(
            "resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        )


def _forbidden(path: str, detail: str) -> status.ApiError:
    return _refusal(FieldError(path, FieldErrorKind.FORBIDDEN, detail))


def _refusal(error: FieldError) -> status.ApiError:
    return status.invalid_options("ListOptions", error)


def _number(text: str) -> int:
    try:
        return max(0, int(text or 0))
    except ValueError:
        raise status.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def user_agent(request: Request) -> str:
    """The product part of the User-Agent header."""
    return request.headers.get("user-agent", "unknown").split("/")[0].split(" ")[0] or "unknown"


def field_manager(request: Request) -> str:
    """The field manager of a write: the one named, else the client's product name."""
    return request.query.get("fieldManager") or user_agent(request)


def write_context(request: Request, options: str) -> WriteContext:
    """The options of a write; `options` is their kind, such as `CreateOptions`.

    Raises:
        ApiError: 422 for an unknown option value.
    """
    validation = request.query.get("fieldValidation", "") or FieldValidation.WARN
    if validation not in set(FieldValidation):
        detail = 'supported values: "", "Ignore", "Strict", "Warn"'
        error = FieldError("fieldValidation", FieldErrorKind.NOT_SUPPORTED, detail, validation)
        raise status.invalid_options(options, error)
    if len(request.query.get("fieldManager", "")) > _MAX_MANAGER:
        detail = f"may not be more than {_MAX_MANAGER} bytes"
        raise status.invalid_options(options, FieldError("fieldManager", FieldErrorKind.TOO_LONG, detail))
    return WriteContext(
        manager=field_manager(request),
        validation=FieldValidation(validation),
        dry_run=is_dry_run(options, request.query.get("dryRun", "").split()),
        force=request.flag("force"),
    )


def is_dry_run(options: str, stages: Sequence[str]) -> bool:
    """True for `All`, False for nothing.

    Raises:
        ApiError: 422 for anything else.
    """
    if any(stage != "All" for stage in stages):
        error = FieldError("dryRun", FieldErrorKind.NOT_SUPPORTED, 'supported values: "All"', list(stages))
        raise status.invalid_options(options, error)
    return bool(stages)
