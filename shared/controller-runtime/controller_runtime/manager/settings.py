"""Flags of the existing binary, put into the words of this one (FW-280)."""

import os
import re
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    CliSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from controller_runtime import quantity
from controller_runtime.duration import parse_seconds
from controller_runtime.json import JsonObject
from controller_runtime.log.broker.address import checked_urls, without_credentials
from controller_runtime.log.wire.subjects import DEFAULT_ROOT, Layout
from controller_runtime.reconcile.watchdog import DEFAULT_BUDGET
from controller_runtime.telemetry.logs import LogFormat, LogLevel, StackLevel


def _level(value: str) -> list[str]:
    # A number is a verbosity: anything above zero asks for more than info.
    if value.isdecimal():
        value = "debug" if int(value) else "info"
    return ["--log-level", value]


def _devel(value: str) -> list[str]:
    return ["--log-level", "debug", "--log-format", "console"] if value != "false" else []


def _ignored(_: str) -> list[str]:
    return []


def _switch(name: str) -> Callable[[str], list[str]]:
    """``--name=false`` and the like, which Go's flags take; a value that is none stays for the error message."""

    def words(value: str) -> list[str]:
        if value.lower() in {"", "true", "t", "1"}:
            return [f"--{name}"]
        return [f"--no-{name}"] if value.lower() in {"false", "f", "0"} else [f"--{name}={value}"]

    return words


_SWITCHES: Final = frozenset({"--zap-devel", "--leader-elect", "--metrics-secure", "--direct-watch"})
_ALIASES: Final[Mapping[str, Callable[[str], list[str]]]] = {
    "--zap-devel": _devel,
    "--zap-encoder": lambda value: ["--log-format", value],
    "--zap-log-level": _level,
    "--zap-stacktrace-level": lambda value: ["--log-stacktrace-level", value],
    "--leader-elect": _switch("leader-elect"),
    "--metrics-secure": _switch("metrics-secure"),
    "--direct-watch": _switch("direct-watch"),
    # There are no webhooks whose certificates these could name.
    "--webhook-cert-path": _ignored,
    "--webhook-cert-name": _ignored,
    "--webhook-cert-key": _ignored,
}


def translated(argv: list[str]) -> list[str]:
    """The arguments with every known alias replaced."""
    return list(_words(iter(argv)))


def _words(remaining: Iterator[str]) -> Iterator[str]:
    for word in remaining:
        flag, joined, value = word.partition("=")
        alias = _ALIASES.get(flag)
        if alias is None:
            yield word
            continue
        if not joined and flag not in _SWITCHES:
            value = next(remaining, "")
        yield from alias(value)


_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_SERVICE_LINK: Final = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_\d+_(TCP|UDP|SCTP)(_[A-Z]+)?)?)$")
"""Variables that the kubelet sets for each Service of the namespace, such as the broker's."""

S = TypeVar("S", bound="Settings")


def _seconds(value: object) -> object:
    return parse_seconds(value) if isinstance(value, str) else value


def _bytes(value: object) -> object:
    return quantity.parse(value).ceiling if isinstance(value, str) else value


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


Seconds = Annotated[float, BeforeValidator(_seconds)]
"""A duration as of MS-028 (``10s``, ``2h30m``), held in seconds."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; an empty host means every interface."""

    host: str
    port: int


def listen_address(text: str) -> Address | None:
    """Read ``host:port``, ``:port`` or ``[v6]:port``; ``0`` means that nothing listens.

    Raises:
        ValueError: it is none of these.
    """
    if text == "0":
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ValueError("expected host:port, :port, or 0 for off")
    return Address(host.strip("[]"), int(port))


def _checked_address(text: str) -> str:
    listen_address(text)
    return text


BindAddress = Annotated[str, AfterValidator(_checked_address)]
"""``host:port``, or ``0``."""

PositiveSeconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0)]
"""A duration that cannot be zero."""

Bytes = Annotated[int, BeforeValidator(_bytes)]
"""A Kubernetes quantity (``1Gi``), held in bytes."""


def _checked_root(text: str) -> str:
    return Layout(text).root


BrokerUrls = Annotated[str, AfterValidator(checked_urls)]
"""A comma-separated list of URLs."""

Root = Annotated[str, AfterValidator(_checked_root)]
"""One token of small letters, digits and hyphens."""


def own_namespace(otherwise: str) -> str:
    """The namespace of the pod that this process runs in; where it runs in none, the one that is named."""
    if _NAMESPACE_FILE.is_file():
        return _NAMESPACE_FILE.read_text(encoding="utf-8").strip()
    return otherwise


class UnusableSettingsError(SystemExit):
    """Ends the process with status 2; `line` was printed.

    Attributes:
        line: every mistake, each by the name under which it was given.
    """

    def __init__(self, line: str) -> None:
        super().__init__(2)
        self.line = line


class Settings(BaseSettings):
    """Settings of every service; a platform derives its own with its prefix, services add more (FW-273)."""

    model_config = SettingsConfigDict(env_prefix="CONTROLLER_", frozen=True, extra="forbid", env_ignore_empty=True)

    system_namespace: str = Field(
        default_factory=lambda: own_namespace("default"), description="operator namespace (FW-270)"
    )
    pod_name: str = Field(default_factory=socket.gethostname, min_length=1, description="name in Leases (FW-281)")
    pod_uid: str = Field("", description="lets a restarted container take over its Lease at once (FW-428)")
    nats_url: BrokerUrls = Field("nats://nats:4222", description="message broker, comma-separated list")
    nats_root: Root = Field(DEFAULT_ROOT, description="first token of all names on the broker (FW-419)")
    nats_jetstream_domain: str = Field("", description="JetStream domain of the streams; empty = the server's own")
    nats_credentials_file: Path | None = Field(None, description="broker authentication")
    nats_ca_file: Path | None = Field(None, description="CA bundle of the broker")
    nats_history_age: Seconds = Field(7 * 24 * 3600.0, description="age limit of the history")
    nats_history_bytes: Bytes = Field(1 << 30, description="size limit of the history")
    nats_decisions_age: Seconds = Field(7 * 24 * 3600.0, description="age limit of the decision records")
    nats_decisions_bytes: Bytes = Field(1 << 29, description="size limit of the decision records")
    nats_heartbeat: PositiveSeconds = Field(10.0, description="renewal of a part's checkpoint; stale after three")
    nats_replicas: int = Field(1, ge=1, le=5, description="stream replicas")
    direct_watch: bool = Field(
        True, description="read the API server directly while the broker is unavailable (FW-400)"
    )
    leader_elect: bool = Field(False, description="leader election by Lease (FW-281)")
    metrics_bind_address: BindAddress = Field("0", description="metrics, host:port; 0 = off (FW-280)")
    metrics_secure: bool = Field(True, description="metrics by HTTPS, for those whom the API server allows (FW-348)")
    metrics_cert_path: Path | None = Field(None, description="folder of the certificate; empty = self-signed")
    metrics_cert_name: str = Field("tls.crt", min_length=1, description="file of the certificate in that folder")
    metrics_cert_key: str = Field("tls.key", min_length=1, description="file of its key in that folder")
    health_probe_bind_address: BindAddress = Field(":8081", description="probes and debug endpoints (FW-282)")
    log_level: Annotated[LogLevel, BeforeValidator(_lower)] = Field("info", description="least severity that is logged")
    log_format: Annotated[LogFormat, BeforeValidator(_lower)] = Field(
        "json", description="one JSON line, or for people"
    )
    log_stacktrace_level: Annotated[StackLevel, BeforeValidator(_lower)] = Field(
        "dpanic", description="least severity of which every line tells where it was written (FW-280)"
    )
    resync_interval: PositiveSeconds = Field(600.0, description="full re-evaluation (FW-017)")
    backoff_initial: PositiveSeconds = Field(0.2, description="first error backoff (FW-098)")
    backoff_max: PositiveSeconds = Field(1000.0, description="longest error backoff (FW-098)")
    decision_budget: PositiveSeconds = Field(
        DEFAULT_BUDGET, description="longest time for which one object may hold all others up (FW-745)"
    )
    watchdog_folder: Path = Field(
        Path("/tmp"),  # noqa: S108  an emptyDir of the pod
        description="folder that outlives the process, for the objects whose decisions took longer (FW-746)",
    )

    @classmethod
    def of_former(cls, values: JsonObject) -> JsonObject:
        """Values that a former release recorded, as this one understands them (FW-662)."""
        return values


def load_settings(settings: type[S], argv: list[str] | None = None) -> S:
    """Read flags and environment; a flag wins over its variable.

    Exits with status 2 and one line per mistake on an unknown flag or an unusable value (FW-272).
    """
    words = translated(sys.argv[1:] if argv is None else argv)
    try:
        return settings(
            _cli_settings_source=CliSettingsSource(
                settings,
                cli_parse_args=words,
                cli_kebab_case="all",
                cli_implicit_flags=True,
                cli_prog_name=Path(sys.argv[0]).name,
            )
        )
    except (ValidationError, SettingsError) as error:
        line = f"unusable settings: {_explain(error, prefix_of(settings), words)}"
        print(line, file=sys.stderr)
        raise UnusableSettingsError(line) from None


def prefix_of(settings: type[Settings]) -> str:
    """What the names of its variables begin with."""
    return settings.model_config.get("env_prefix", "")


def _explain(error: ValidationError | SettingsError, prefix: str, words: list[str]) -> str:
    if isinstance(error, SettingsError):
        return str(error)
    flags = {word.partition("=")[0] for word in words}
    return "; ".join(
        f"{_spelled('_'.join(map(str, item['loc'])), prefix, flags)}: {item['msg']} "
        f"(got {without_credentials(repr(item['input']))})"
        for item in error.errors()
    )


def _spelled(name: str, prefix: str, flags: set[str]) -> str:
    """A setting as it was given: by its flag, or else by its variable."""
    flag = f"--{name.replace('_', '-')}"
    return flag if flag in flags else f"{prefix}{name.upper()}"


def effective(settings: Settings) -> JsonObject:
    """The values in force, for people and for the log; credentials within URLs are masked."""
    values = settings.model_dump(mode="json")
    return {name: without_credentials(one) if isinstance(one, str) else one for name, one in values.items()}


def recorded(settings: type[S], values: JsonObject) -> S:
    """Settings as `effective` gave them once: no flag and no variable of this process counts.

    What did not exist then has its default; what is gone since is left out.

    Raises:
        ValidationError: a value is not valid any more.
    """

    class Recorded(settings):  # type: ignore[valid-type,misc]
        @classmethod
        def settings_customise_sources(
            cls, *_: object, init_settings: PydanticBaseSettingsSource, **_others: object
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (init_settings,)

    known = {name: value for name, value in settings.of_former(values).items() if name in settings.model_fields}
    chosen: S = Recorded(**known)
    return chosen


def unknown_variables(settings: type[Settings]) -> list[str]:
    """Variables with the prefix in the environment that mean nothing to this service; logged once as a warning."""
    prefix = prefix_of(settings)
    known = {prefix + name.upper() for name in settings.model_fields}
    ours = (name for name in os.environ if name.startswith(prefix) and not _SERVICE_LINK.search(name))
    return sorted(name for name in ours if name not in known)
