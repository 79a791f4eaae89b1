"""Troubles: what keeps a service from its work and what to do, in one line, from a closed table (FW-583, FW-586)."""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import aiohttp
import structlog

from controller_runtime.kube.config import ConfigError
from controller_runtime.kube.errors import ApiConnectionError, ApiError, KubeError
from controller_runtime.kube.refusals import AccessRequest
from controller_runtime.log.broker.address import BusClosedError, BusError, BusSetupError, without_credentials
from controller_runtime.log.broker.connection import ConnectionState, ConnectionStatistics
from controller_runtime.log.broker.streams import StreamFault, StreamMismatchError
from controller_runtime.log.publish.state import SupersededError
from controller_runtime.manager.causes import REMEDIES, Cause, to_define, to_upgrade
from controller_runtime.reconcile.watchdog import Subject

_log = structlog.get_logger(__name__)


class StartError(Exception):
    """The process cannot run with its settings; the message says what to change."""


EXPECTED: Final = (KubeError, BusError, StreamMismatchError, SupersededError, StartError)
"""What operators can cure."""


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors themselves, without the groups around them."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def report(error: BaseException, message: str) -> None:
    """Log why a service ends: a line for what operators can cure, a traceback for what only developers can."""
    reported = set()
    for cause in leaves(error):
        if not isinstance(cause, EXPECTED):
            _log.error(message, error=f"{type(cause).__name__}: {cause}", exc_info=cause)
        elif str(cause) not in reported:
            reported.add(str(cause))
            _log.error(message, error=str(cause))


_ONCE: Final = frozenset(
    {Cause.BROKER_UNREACHABLE, Cause.BROKER_CREDENTIALS, Cause.BROKER_CERTIFICATE, Cause.API_UNREACHABLE}
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """One of them.

    Attributes:
        found: what was found, with the names of what is concerned.
        remedy: what to do, where that depends on what was found.
    """

    cause: Cause
    found: str
    remedy: str = ""

    @property
    def identity(self) -> str:
        """Under which it is reported once: by its cause where words vary with every attempt."""
        return self.cause.value if self.cause in _ONCE else self.line

    @property
    def line(self) -> str:
        """What people read."""
        # Servers and parsers say much in several lines.
        return f"{' '.join(self.found.split())}; {self.remedy or REMEDIES[self.cause]}"


# The broker

_WORDS_OF_CREDENTIALS: Final = re.compile(r"authoriz|authentic|credential|nkey", re.IGNORECASE)
_WORDS_OF_TLS: Final = re.compile(r"\[SSL|certificate|\btls\b", re.IGNORECASE)
_WORDS_OF_PERMISSION: Final = re.compile(r"violation for (publish|subscription) to \"?([^\"\s]+)", re.IGNORECASE)


def broker_troubles(now: ConnectionStatistics) -> Iterator[Trouble]:
    """What is wrong between this process and its broker."""
    at = ",".join(now.servers)
    if now.state is not ConnectionState.CONNECTED:
        # Before the first attempt has failed there is nothing to say.
        if now.last_error is not None or now.state is not ConnectionState.CONNECTING:
            yield _of_connecting(at, now.last_error or "the connection was lost")
        return
    if now.no_jetstream is not None:
        yield Trouble(Cause.BROKER_NO_JETSTREAM, f"the message broker {at} has no JetStream: {now.no_jetstream}")
    if now.denied is not None:
        yield Trouble(Cause.BROKER_DENIES, f"the message broker {at} denies {_denied(now.denied)}")


def of_stream(fault: StreamFault) -> Trouble:
    """A stream that another client of the broker changed (FW-767)."""
    return Trouble(Cause.BROKER_STREAM, f"stream {fault.stream} changed: {fault.cause}", fault.remedy)


def of_object(held: Subject) -> Trouble:
    """An object that held the event loop when it was taken in, and is not read until it changes (FW-747)."""
    name = f"{held.namespace}/{held.name}" if held.namespace else held.name
    found = f"{held.kind} {name} is not read: {held.stage} held the service for {held.overrun:g} s at {held.version}"
    return Trouble(Cause.OBJECT, found)


def _of_connecting(at: str, why: str) -> Trouble:
    if _WORDS_OF_TLS.search(why):
        return Trouble(Cause.BROKER_CERTIFICATE, f"TLS with the message broker {at} fails: {why}")
    if _WORDS_OF_CREDENTIALS.search(why):
        return Trouble(Cause.BROKER_CREDENTIALS, f"the message broker {at} refuses the credentials: {why}")
    return Trouble(Cause.BROKER_UNREACHABLE, f"the message broker {at} cannot be reached: {why}")


def _denied(words: str) -> str:
    found = _WORDS_OF_PERMISSION.search(words)
    if found is None:
        return words
    done = "publishing" if found[1].lower() == "publish" else "subscribing"
    return f"{done} to {found[2]}"


# The API server


def of_unreached(error: Exception) -> Trouble:
    """Why the API server has not answered yet."""
    if isinstance(error, ConfigError):
        return Trouble(Cause.API_CREDENTIALS, str(error))
    if isinstance(error, ApiError):
        return _of_refusal(AccessRequest.of("get", "namespaces", ""), error, ())
    if isinstance(error, ApiConnectionError):
        why = "its certificate is not believed" if _is_disbelieved(error) else error.failure.value
        return Trouble(Cause.API_UNREACHABLE, f"the API server {error.host} cannot be reached: {why}")
    return Trouble(Cause.API_UNREACHABLE, f"the API server cannot be asked: {error}")


def _is_disbelieved(error: ApiConnectionError) -> bool:
    return isinstance(error.__cause__, aiohttp.ClientConnectorCertificateError)


def of_refusals(
    current: Iterable[tuple[AccessRequest, ApiError]],
    *,
    optional: Collection[str],
    of_roles: Collection[tuple[str, str]],
) -> Iterator[Trouble]:
    """What the API server refuses, each once.

    Args:
        optional: resources whose definition may be missing.
        of_roles: group and resource of what a Role grants, and not a ClusterRole.
    """
    missing = (
        _of_refusal(asked, error, of_roles)
        for asked, error in current
        if error.code != 404 or asked.resource not in optional
    )
    yield from dict.fromkeys(missing)


def _of_refusal(asked: AccessRequest, error: ApiError, of_roles: Collection[tuple[str, str]]) -> Trouble:
    if error.code == 401:
        return Trouble(Cause.API_CREDENTIALS, "the API server does not know the credentials of this process (401)")
    if error.code == 403:
        return Trouble(Cause.PERMISSION, _missing_permission(error.message, of_roles))
    if error.code == 404:
        what = f"the cluster does not serve {asked.resource} ({error.request}: 404)"
        return Trouble(Cause.DEFINITION_MISSING, what, to_define(asked.resource))
    if error.is_typed_patch_failure:
        field = _UNDECLARED.search(error.message)
        what = f"has no field {field[1]}" if field else "lacks a field"
        what = f"the cluster's definition of {asked.resource} {what}, which is written"
        return Trouble(Cause.DEFINITION_OLD, what, to_upgrade(asked.resource))
    return Trouble(Cause.API_UNREACHABLE, f"the API server answers {error.code} to {error.request}")


_UNDECLARED: Final = re.compile(r"(?<!\S)(\.\S+): field not declared in schema")
_FORBIDDEN: Final = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]*)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)")?'
)
_ACCOUNT: Final = "system:serviceaccount:"


def _missing_permission(message: str, of_roles: Collection[tuple[str, str]]) -> str:
    """Who may not do what, and which role should say so: those of the chart have the name of the ServiceAccount."""
    found = _FORBIDDEN.search(message)
    if found is None:
        return message
    user, group, resource = found["user"], found["group"], found["resource"]
    kind = "Role" if (group, resource) in of_roles else "ClusterRole"
    if user.startswith(_ACCOUNT):
        namespace, _, name = user.removeprefix(_ACCOUNT).partition(":")
        who, role = f"ServiceAccount {namespace}/{name}", f"{kind} {name}"
    else:
        who, role = f'User "{user}"', f"{kind} that is bound to it"
    what = f"{resource}.{group}" if group else resource
    reach = f"in namespace {found['namespace']}" if found["namespace"] else "in the whole cluster"
    return f"{who} may not {found['verb']} {what} {reach}, which the {role} should grant"


# The end


def of_end(error: BaseException) -> Trouble:
    """Why a process ends, as far as it may be shown outside of its log."""
    causes = list(leaves(error))
    for cause in causes:
        if isinstance(cause, StartError | BusSetupError):
            return Trouble(Cause.SETTINGS, str(cause))
        if isinstance(cause, BusClosedError):
            return Trouble(Cause.BROKER_CREDENTIALS, str(cause))
    expected = [str(cause) for cause in causes if isinstance(cause, EXPECTED)]
    if expected:
        return Trouble(Cause.ENDED, f"the service ends: {without_credentials(expected[0])}")
    # An unexpected error may quote anything.
    names = ", ".join(sorted({type(cause).__name__ for cause in causes}))
    return Trouble(Cause.ENDED, f"the service ends because of an unexpected error ({names})")
