"""Switches that replace the transfer in tests and demonstrations; none needs a network (AR-759…AR-761, FW-278)."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Final

from aim_artifacts.downloader.failure import DownloadError
from aim_artifacts.downloader_contract import ExitCode

_FILE: Final = "simulated_data"
_DEFAULT_SIZE: Final = 1 << 20
_HUB_FILE_SIZE: Final = 102400


class Mode(Enum):
    """What is simulated."""

    HANG = auto()
    FAILURE = auto()
    DOWNLOAD = auto()
    HUB_ATTEMPTS = auto()


@dataclass(frozen=True, slots=True)
class Simulation:
    """A simulated run; durations in seconds.

    Attributes:
        failing: protocols whose attempts fail.
    """

    mode: Mode
    download_seconds: float
    verify_seconds: float
    verification_fails: bool
    attempt_seconds: float
    failing: frozenset[str]


_SWITCHES: Final = (
    ("AIM_DEBUG_CAUSE_HANG", Mode.HANG),
    ("AIM_DEBUG_CAUSE_FAILURE", Mode.FAILURE),
    ("AIM_DEBUG_SIMULATE_DOWNLOAD", Mode.DOWNLOAD),
    ("AIM_DEBUG_SIMULATE_HF_DOWNLOAD", Mode.HUB_ATTEMPTS),
)
"""In the order in which they are looked at."""


def read_simulation(variables: Mapping[str, str], *, hugging_face: bool) -> Simulation | None:
    """The simulation that is switched on, if any."""
    for name, mode in _SWITCHES:
        if variables.get(name) and (hugging_face or mode is not Mode.HUB_ATTEMPTS):
            return _simulation(variables, mode)
    return None


def _simulation(variables: Mapping[str, str], mode: Mode) -> Simulation:
    failing = variables.get("AIM_DEBUG_SIMULATE_HF_FAIL_PROTOCOLS", "")
    return Simulation(
        mode,
        download_seconds=_seconds(variables, "AIM_DEBUG_DOWNLOAD_DURATION", 10.0),
        verify_seconds=_seconds(variables, "AIM_DEBUG_VERIFY_DURATION", 10.0),
        verification_fails=bool(variables.get("AIM_DEBUG_VERIFY_FAIL")),
        attempt_seconds=_seconds(variables, "AIM_DEBUG_SIMULATE_HF_DURATION", 2.0),
        failing=frozenset(name.strip().upper() for name in failing.split(",") if name.strip()),
    )


def _seconds(variables: Mapping[str, str], name: str, default: float) -> float:
    text = variables.get(name, "").strip().removesuffix("s")
    try:
        return float(text) if text else default
    except ValueError as error:
        raise DownloadError(ExitCode.USAGE, f"{name} is {text!r}, expected a number of seconds") from error


def simulated_size(variables: Mapping[str, str]) -> int | None:
    """The size that check-size reports without asking anybody (``AIM_DEBUG_SIMULATE_SIZE_BYTES``)."""
    text = variables.get("AIM_DEBUG_SIMULATE_SIZE_BYTES", "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise DownloadError(ExitCode.USAGE, f"AIM_DEBUG_SIMULATE_SIZE_BYTES is {text!r}, expected a positive number")
    return int(text)


def expected_size(configured: int | None) -> int:
    """Bytes that a simulated download pretends to have."""
    return configured or _DEFAULT_SIZE


async def simulate_download(simulation: Simulation, target: Path, size: int) -> None:
    """Half of the data, a pause, all of it."""
    await asyncio.to_thread(_grow, target / _FILE, size // 2)
    await asyncio.sleep(simulation.download_seconds)
    await asyncio.to_thread(_grow, target / _FILE, size)


async def simulate_verification(simulation: Simulation) -> None:
    """A pause and a verdict.

    Raises:
        DownloadError: the verdict is bad.
    """
    await asyncio.sleep(simulation.verify_seconds)
    if simulation.verification_fails:
        raise DownloadError(ExitCode.VERIFICATION_FAILED, "the simulated verification found differing checksums")


async def simulate_attempt(simulation: Simulation, protocol: str, target: Path) -> None:
    """One attempt of a simulated Hub download.

    Raises:
        DownloadError: this protocol is to fail.
    """
    await asyncio.sleep(simulation.attempt_seconds)
    if protocol in simulation.failing:
        raise DownloadError(ExitCode.DOWNLOAD_FAILED, f"simulated failure of {protocol}")
    await asyncio.to_thread(_grow, target / _FILE, _HUB_FILE_SIZE)


def _grow(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab"):
        # Apparent size is what counts (AR-747): a sparse file simulates any model on any disk.
        os.truncate(path, size)
