"""The files that a connection to the message broker is made with: who one is, and whom one trusts (FW-585)."""

import ssl
from pathlib import Path
from typing import Final, TypedDict

import nkeys

from controller_runtime.bus.errors import BusSetupError

_JWT_MARK: Final = "BEGIN NATS USER JWT"
_SEED_MARK: Final = "BEGIN USER NKEY SEED"
_MAKE_CREDENTIALS: Final = "put in what `nsc` or `aim_packaging nats-keys` made, and start again"


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
        # Without the cause: it may quote what it stumbled over.
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
