"""Where the message broker is, with which files to connect to it, and what goes wrong with it (FW-585, FW-587)."""

import re
import ssl
from pathlib import Path
from typing import Final, TypedDict
from urllib.parse import urlsplit

import nkeys

from controller_runtime.names import CREDENTIALS


class BusError(Exception):
    """Base of failures of the message broker."""


class BusUnavailableError(BusError):
    """No answer: disconnected, timed out, or the subject has no responder."""


class BusClosedError(BusError):
    """The connection is closed for good; the process has to restart."""


class BusSetupError(BusError):
    """The process was given files that it cannot use; the message says which (FW-585)."""


class BusApiError(BusError):
    """The broker refused an API request.

    Attributes:
        code: the broker's error code, such as 10059 (stream not found).
    """

    def __init__(self, subject: str, code: int, text: str) -> None:
        super().__init__(f"{subject}: {text} ({code})")
        self.code = code


_SCHEMES: Final = ("nats", "tls", "ws", "wss")
BROKER_URLS: Final = rf"^(({'|'.join(_SCHEMES)})://[^\s,/]+(\s*,\s*({'|'.join(_SCHEMES)})://[^\s,/]+)*)?$"
"""Pattern of a comma-separated list, for schemas."""
_CREDENTIALS: Final = re.compile(r"(^|://)[^/\s]*@")
"""To the last `@` before the path: a password may hold one, and one too much is hidden rather than one too few. At the
beginning also without a scheme, which a user may have forgotten."""


def without_credentials(text: str) -> str:
    """The text with user, password and token masked in every URL of it."""
    return _CREDENTIALS.sub(r"\1***@", text)


def split_urls(text: str) -> tuple[str, ...]:
    """The URLs of a comma-separated list."""
    return tuple(url.strip() for url in text.split(",") if url.strip())


def checked_urls(text: str) -> str:
    """The same list.

    Raises:
        ValueError: one of them is no URL of a broker, or there is none.
    """
    urls = split_urls(text)
    if not urls:
        raise ValueError("expected at least one URL such as nats://host:4222")
    for url in urls:
        try:
            parts = urlsplit(url)
            fits = parts.scheme in _SCHEMES and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:
            fits = False
        if not fits:
            raise ValueError("expected URLs such as nats://host:4222, with nats, tls, ws or wss, separated by commas")
    return text


_JWT_MARK: Final = "BEGIN NATS USER JWT"
_SEED_MARK: Final = "BEGIN USER NKEY SEED"
_MAKE_CREDENTIALS: Final = f"{CREDENTIALS}, and start again"


class Credentials(TypedDict, total=False):
    """The argument of the library that the file is for."""

    user_credentials: Path
    nkeys_seed: str


def read_credentials(file: Path | None) -> Credentials:
    """How to identify oneself.

    Raises:
        BusSetupError: the file cannot be read, or is not of either form. The library would try it again and again.
    """
    if file is None:
        return {}
    text = _read("--nats-credentials-file", file)
    if _JWT_MARK in text:
        if _SEED_MARK not in text:
            raise BusSetupError(f"--nats-credentials-file {file} has a user JWT and no seed; {_MAKE_CREDENTIALS}")
        return {"user_credentials": file}
    try:
        nkeys.from_seed(bytearray(text.strip().encode())).wipe()  # type: ignore[no-untyped-call]
    except (nkeys.NkeysError, ValueError):
        # Without the cause: it may quote what it failed on.
        raise BusSetupError(
            f"--nats-credentials-file {file} is neither the seed of an NKey nor a user JWT; {_MAKE_CREDENTIALS}"
        ) from None
    return {"nkeys_seed": str(file)}


def tls_context(ca_file: Path | None) -> ssl.SSLContext | None:
    """Whom to trust; ``None`` where no file says it.

    Raises:
        BusSetupError: the file cannot be read, or holds no certificates.
    """
    if ca_file is None:
        return None
    _read("--nats-ca-file", ca_file)
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except (ssl.SSLError, ValueError) as error:
        raise BusSetupError(f"--nats-ca-file {ca_file} holds no certificates in PEM: {error}; correct it") from error


def _read(flag: str, file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise BusSetupError(f"{flag} {file} cannot be read: {why}; mount its Secret, or correct the path") from error
