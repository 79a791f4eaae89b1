"""Why the event log cannot be read, and what to do about what the command was given (FW-730). Pure."""

from typing import Final

from aim_cli.cluster.broker import DEFAULT_NAMES, BrokerNames
from aim_cli.log import light as light  # noqa: PLC0414 (before what it makes light)
from controller_runtime.log import (
    STREAM_NOT_FOUND,
    BusApiError,
    BusError,
    BusSettings,
    ConnectionStatistics,
    without_credentials,
)
from controller_runtime.manager import Cause, Trouble, broker_troubles

_FILE: Final = "check that the broker knows the public key of the file in AIM_NATS_CREDENTIALS_FILE"


_PASSWORD: Final = "check the user and password, or the token, in --nats-url or AIM_NATS_URL"  # noqa: S105 - words


_OTHER_CA: Final = "check AIM_NATS_CA_FILE, and that the broker has a certificate for the host that was asked"


_NO_CA: Final = "name the CA of the broker in AIM_NATS_CA_FILE, and ask by a host that its certificate is for"


_PLAIN: Final = "leave out tls:// and AIM_NATS_CA_FILE, or name a broker that has TLS"


_JETSTREAM: Final = "check AIM_NATS_JETSTREAM_DOMAIN, and that the broker and the account of this user have JetStream"


_ELSEWHERE: Final = "check AIM_NATS_ROOT, the account of this user, and that the services reach this broker: aim doctor"


_AGAIN: Final = "ask again, and look at the broker: aim doctor"


# The services have flags for what are variables here.
_VARIABLES: Final = {"--nats-credentials-file": "AIM_NATS_CREDENTIALS_FILE", "--nats-ca-file": "AIM_NATS_CA_FILE"}


def of_unreached(settings: BusSettings, now: ConnectionStatistics, names: BrokerNames) -> str:
    """Why there is no connection, as far as the broker or the network states it."""
    trouble = next(broker_troubles(now), None)
    if trouble is None:
        return f"the message broker at {_at(settings)} does not answer; {_address(names)}"
    return f"{_with_variables(trouble.found)}; {_remedy(settings, trouble, names)}"


def of_refused(settings: BusSettings, now: ConnectionStatistics, error: BusError, names: BrokerNames) -> str:
    """Why a question over a connection that stands had no answer."""
    if isinstance(error, BusApiError) and error.code == STREAM_NOT_FOUND:
        return f"the message broker {_at(settings)} has no such log: {error}; {_ELSEWHERE}"
    trouble = next(broker_troubles(now), None)
    if trouble is None:
        return f"the message broker {_at(settings)} does not answer: {error}; {_AGAIN}"
    return f"{trouble.found}; {_remedy(settings, trouble, names)}"


def refused_by_broker(now: ConnectionStatistics, names: BrokerNames = DEFAULT_NAMES) -> str:
    """What keeps a connected user from the log; empty as far as is known nothing does."""
    found = ((one.found, _standing(one.cause, names)) for one in broker_troubles(now))
    return next((f"{what}; {remedy}" for what, remedy in found if remedy), "")


def of_files(error: Exception) -> str:
    """Which file cannot be used, under the name by which it was given."""
    return _with_variables(str(error))


def _remedy(settings: BusSettings, trouble: Trouble, names: BrokerNames) -> str:
    match trouble.cause:
        case Cause.BROKER_CREDENTIALS if settings.credentials_file is not None:
            return _FILE
        case Cause.BROKER_CREDENTIALS:
            return _PASSWORD if any("@" in url for url in settings.servers) else _unnamed(names)
        case Cause.BROKER_CERTIFICATE if "offers no TLS" in trouble.found:
            return _PLAIN
        case Cause.BROKER_CERTIFICATE:
            return _NO_CA if settings.ca_file is None else _OTHER_CA
        case cause:
            return _standing(cause, names) or _address(names)


def _standing(cause: Cause, names: BrokerNames) -> str:
    """The remedy where a connection stands and the log cannot be read over it."""
    match cause:
        case Cause.BROKER_NO_JETSTREAM:
            return _JETSTREAM
        case Cause.BROKER_DENIES:
            return f"use its user aim, which may read the log (AIM_NATS_CREDENTIALS_FILE, Secret {names.reader_secret})"
        case _:
            return ""


def _unnamed(names: BrokerNames) -> str:
    seed = f"the seed of the Secret {names.reader_secret}"
    return f"name its user aim: {seed}, as a file in AIM_NATS_CREDENTIALS_FILE"


def _address(names: BrokerNames) -> str:
    return f"set --nats-url or AIM_NATS_URL (in a cluster: {names.port_forward})"


def _at(settings: BusSettings) -> str:
    return ",".join(map(without_credentials, settings.servers))


def _with_variables(text: str) -> str:
    for flag, variable in _VARIABLES.items():
        text = text.replace(flag, variable)
    return text
