"""The sequence of Hub protocols: one attempt each until one succeeds (AR-306, AR-307, AR-720…AR-727)."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final

from aim_artifacts.downloader.failure import DownloadError, log
from aim_artifacts.downloader.reporter import Reporter
from aim_artifacts.downloader_contract import ExitCode

PROTOCOL_VARIABLES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "XET": {"HF_HUB_DISABLE_XET": "0", "HF_HUB_ENABLE_HF_TRANSFER": "0"},
        "HF_TRANSFER": {"HF_HUB_DISABLE_XET": "1", "HF_HUB_ENABLE_HF_TRANSFER": "1"},
        "HTTP": {"HF_HUB_DISABLE_XET": "1", "HF_HUB_ENABLE_HF_TRANSFER": "0"},
    }
)
"""Environment of the Hub client per protocol (AR-722)."""

Attempt = Callable[[str], Awaitable[None]]
"""One transfer by a protocol; raises `DownloadError`."""


def downloading_with(protocol: str) -> str:
    """What the status says while an attempt transfers (AR-307)."""
    return f"Downloading with {protocol}"


async def run_attempts(protocols: tuple[str, ...], sequence: str, attempt: Attempt, reporter: Reporter) -> None:
    """Try one protocol after the other.

    Raises:
        DownloadError: a cause that no protocol can cure, at once; else after the last one (AR-726, AR-727).
    """
    total, last = len(protocols), DownloadError(ExitCode.DOWNLOAD_FAILED, "no protocol was tried")
    for number, protocol in enumerate(protocols, start=1):
        said = _Attempts(reporter, {"attempt": number, "totalAttempts": total, "protocolSequence": sequence}, protocol)
        await said.say(downloading_with(protocol))
        try:
            await _attempt(protocol, attempt)
        except DownloadError as error:
            await said.say(f"Failed with {protocol}")
            log(f"attempt {number} of {total} with {protocol} failed: {error.message}")
            if error.is_terminal:
                raise
            last = error
        else:
            await said.say("Verifying integrity...")
            return
    await reporter.report(download={"message": f"All {total} attempts exhausted"})
    code = ExitCode.STALLED if last.code is ExitCode.STALLED else ExitCode.DOWNLOAD_FAILED
    raise DownloadError(code, f"all {total} attempts failed, the last one with: {last.message}")


class _Attempts:
    """What the status says about one attempt."""

    def __init__(self, reporter: Reporter, fixed: Mapping[str, int | str], protocol: str) -> None:
        self._reporter = reporter
        self._fixed = {"protocol": protocol, **fixed}

    async def say(self, message: str) -> None:
        await self._reporter.report(download={**self._fixed, "message": message})


async def _attempt(protocol: str, attempt: Attempt) -> None:
    if protocol not in PROTOCOL_VARIABLES:
        known = ", ".join(PROTOCOL_VARIABLES)
        raise DownloadError(ExitCode.DOWNLOAD_FAILED, f"unknown protocol {protocol}; known are {known}")
    if protocol == "HF_TRANSFER":
        log("HF_TRANSFER is not part of current Hub clients: downloading over plain HTTP (AR-723)")
    await attempt(protocol)
