"""The program's environment, read once (AR-703)."""

import math
import ssl
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aim_artifacts.downloader.adapter import SharedDisk, read_shared_disk
from aim_artifacts.downloader.failure import DownloadError
from aim_artifacts.downloader_contract import ExitCode, FileSelection, FilterError, parse_selection

DEFAULT_WORK_DIRECTORIES: Final = {"HF_HOME": "/tmp/.hf", "TMPDIR": "/tmp/"}  # noqa: S108 - the container's own
"""Work directories of the Hub client, when the pod sets none: there is no home directory (AR-P31)."""
TERMINATION_PATH: Final = "AIM_TERMINATION_MESSAGE_PATH"
"""Where the termination message goes; outside a container it has to be set."""

AUTHORITIES: Final = "AIM_CA_BUNDLE"
"""Certificate authorities in PEM, the text itself: a variable reaches a pod of any namespace, a file does not."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The settings of the program.

    Attributes:
        expected_size: denominator of the progress in bytes; ``None`` = to be found out.
        protocols: sequence of Hub protocols, trimmed and upper-cased; empty = one attempt with ambient settings.
        protocol_sequence: the sequence as configured, for the status.
        stall_timeout: seconds without growth after which a transfer is killed; 0 = never.
        progress_interval: seconds between measurements.
        disk: what an adapter shares with others.
    """

    target: Path
    expected_size: int | None
    artifact: str
    namespace: str
    protocols: tuple[str, ...]
    protocol_sequence: str
    selection: FileSelection
    stall_timeout: float
    progress_interval: float
    max_workers: int
    hub_cache: Path
    disk: SharedDisk | None = None


def read_environment(variables: Mapping[str, str]) -> Environment:
    """Interpret the variables.

    Raises:
        DownloadError: usage error, naming the variable.
    """
    sequence = variables.get("AIM_DOWNLOADER_PROTOCOL", "")
    expected = variables.get("EXPECTED_SIZE_BYTES", "").strip()
    return Environment(
        target=Path(variables.get("TARGET_DIR") or "/cache"),
        expected_size=int(_number(variables, "EXPECTED_SIZE_BYTES", 0.0)) if expected else None,
        artifact=variables.get("ARTIFACT_NAME", ""),
        namespace=variables.get("ARTIFACT_NAMESPACE", ""),
        protocols=tuple(name for entry in sequence.split(",") if (name := entry.strip().upper())),
        protocol_sequence=sequence,
        selection=_selection(variables.get("AIM_DOWNLOAD_FILTER")),
        stall_timeout=_number(variables, "STALL_TIMEOUT", 120.0),
        progress_interval=max(0.01, _number(variables, "PROGRESS_INTERVAL", 5.0)),
        max_workers=max(1, int(_number(variables, "AIM_DOWNLOAD_MAX_WORKERS", 8.0))),
        hub_cache=Path(variables.get("HF_HOME") or DEFAULT_WORK_DIRECTORIES["HF_HOME"]),
        disk=read_shared_disk(variables),
    )


def trust_authorities(variables: MutableMapping[str, str]) -> None:
    """Let every client trust the authorities of AIM_CA_BUNDLE beside those that it trusts already (AR-818).

    Raises:
        DownloadError: usage error; the variable holds no certificates.
    """
    text = variables.get(AUTHORITIES, "").strip()
    if not text:
        return
    try:
        ssl.create_default_context(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise DownloadError(
            ExitCode.USAGE, f"{AUTHORITIES} holds no certificates in PEM: {error}; set it to their text"
        ) from error
    folder = Path(variables.get("HF_HOME") or DEFAULT_WORK_DIRECTORIES["HF_HOME"])
    folder.mkdir(parents=True, exist_ok=True)
    everybody = variables.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    files = {"SSL_CERT_FILE": everybody, "AWS_CA_BUNDLE": variables.get("AWS_CA_BUNDLE") or everybody}
    for name, known in files.items():
        content = Path(known).read_text(encoding="utf-8") if known and Path(known).is_file() else ""
        bundle = folder / f"{name.lower()}.pem"
        bundle.write_text(f"{content}\n{text}\n", encoding="utf-8")
        variables[name] = str(bundle)


def termination_path(variables: Mapping[str, str]) -> Path:
    """Where the termination message goes."""
    return Path(variables.get(TERMINATION_PATH) or "/dev/termination-log")


def _selection(text: str | None) -> FileSelection:
    try:
        return parse_selection(text)
    except FilterError as error:
        raise DownloadError(ExitCode.USAGE, str(error)) from error


def _number(variables: Mapping[str, str], name: str, default: float) -> float:
    text = variables.get(name, "").strip()
    try:
        value = float(text) if text else default
    except ValueError:
        value = -1.0
    if not math.isfinite(value) or value < 0:
        raise DownloadError(ExitCode.USAGE, f"{name} is {text!r}, expected a number that is not negative")
    return value
