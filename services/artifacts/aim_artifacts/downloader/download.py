"""The main sequence of a download (AR-710)."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aim_artifacts.downloader.adapter import check_adapter, clear_left_overs, simulate_adapter
from aim_artifacts.downloader.child import run_transfer
from aim_artifacts.downloader.environment import Environment
from aim_artifacts.downloader.failure import DownloadError, log
from aim_artifacts.downloader.monitor import Monitor, Watched, complete_progress, directory_size
from aim_artifacts.downloader.protocols import PROTOCOL_VARIABLES, downloading_with, run_attempts
from aim_artifacts.downloader.reporter import Reporter, open_reporter
from aim_artifacts.downloader.simulation import (
    Mode,
    Simulation,
    expected_size,
    read_simulation,
    simulate_attempt,
    simulate_download,
    simulate_verification,
)
from aim_artifacts.downloader.transfer import Kind
from aim_artifacts.downloader_contract import ExitCode
from aim_artifacts.source import Scheme, Source

if TYPE_CHECKING:
    from aim_artifacts.downloader.sources import ListedSource

_SIMULATED_PROTOCOL = "SIMULATED"
_S3 = "S3"


async def download(source: Source, environment: Environment, variables: Mapping[str, str] = os.environ) -> None:
    """Bring the source into the target directory and verify it.

    Raises:
        DownloadError: with the exit code that says why.
    """
    environment.target.mkdir(parents=True, exist_ok=True)
    if environment.disk is not None:
        await asyncio.to_thread(clear_left_overs, environment.target, environment.disk)
    simulation = read_simulation(variables, hugging_face=source.scheme is Scheme.HUGGING_FACE)
    async with open_reporter(environment.namespace, environment.artifact) as reporter:
        if simulation is not None:
            log(f"pretending to download {source}: {simulation.mode.name.lower()}")
            await _simulated(simulation, environment, reporter)
        else:
            await _real(source, environment, reporter)
    log(f"{source} is complete in {environment.target} and verified")


async def _real(source: Source, environment: Environment, reporter: Reporter) -> None:
    # Imported here: the clients take most of the start-up time, and a simulation needs neither.
    from aim_artifacts.downloader.sources import list_source  # noqa: PLC0415

    async with _monitored(environment, environment.expected_size or 0, reporter) as monitor:
        listed = await list_source(source, environment)
        monitor.expected = environment.expected_size or listed.size
        if listed.commit and environment.protocols:
            await reporter.report(download={"commit": listed.commit})
        await asyncio.to_thread(_check_space, environment, listed.size)
        log(f"downloading {listed.size} bytes from {source}")
        await _transfer(source, listed, environment, monitor, reporter)
    await reporter.report(progress=complete_progress(monitor.expected))
    await listed.verify(environment)
    if environment.disk is not None:
        rank = await asyncio.to_thread(check_adapter, environment.target)
        log(f"the adapter has rank {rank}")


async def _transfer(
    source: Source, listed: "ListedSource", environment: Environment, monitor: Monitor, reporter: Reporter
) -> None:
    job = listed.job(environment)

    async def attempt(protocol: str) -> None:
        with monitor.transfer(downloading_with(protocol)):
            await run_transfer(job, PROTOCOL_VARIABLES[protocol], monitor, environment.stall_timeout)

    if source.scheme is Scheme.S3:
        await _say_s3(reporter, downloading_with(_S3))
        try:
            with monitor.transfer(downloading_with(_S3)):
                await run_transfer(job, {}, monitor, environment.stall_timeout)
        except DownloadError:
            await _say_s3(reporter, "Failed with S3")
            raise
        await _say_s3(reporter, "Verifying integrity...")
    elif environment.protocols:
        sequence = environment.protocol_sequence
        await run_attempts(environment.protocols, sequence, attempt, reporter)
    else:
        await run_transfer(job, {}, monitor, environment.stall_timeout)


async def _say_s3(reporter: Reporter, message: str) -> None:
    """S3 has one protocol and one attempt (AR-309)."""
    fixed = {"protocol": _S3, "attempt": 1, "totalAttempts": 1, "protocolSequence": _S3}
    await reporter.report(download={**fixed, "message": message})


def _check_space(environment: Environment, size: int) -> None:
    """Do not begin what cannot end well (AR-751)."""
    missing = size - directory_size(environment.target)
    free = shutil.disk_usage(environment.target).free
    if free < missing:
        raise DownloadError(
            ExitCode.STORAGE_FULL,
            f"{missing} bytes are missing but only {free} bytes are free on {environment.target}; "
            "raise spec.size or the headroom and create the artifact again",
        )


async def _simulated(simulation: Simulation, environment: Environment, reporter: Reporter) -> None:
    expected = expected_size(environment.expected_size)
    async with _monitored(environment, expected, reporter) as monitor:
        await _simulated_transfer(simulation, environment, monitor, expected, reporter)
    await reporter.report(progress=complete_progress(expected))
    if environment.disk is not None:
        await asyncio.to_thread(simulate_adapter, environment.target)
    if simulation.mode is Mode.DOWNLOAD:
        await simulate_verification(simulation)


async def _simulated_transfer(
    simulation: Simulation, environment: Environment, monitor: Monitor, expected: int, reporter: Reporter
) -> None:
    async def attempt(protocol: str) -> None:
        await simulate_attempt(simulation, protocol, environment.target)

    if simulation.mode is Mode.HANG:
        await run_transfer({"kind": Kind.HANG}, {}, monitor, environment.stall_timeout)
    elif simulation.mode is Mode.FAILURE:
        raise DownloadError(ExitCode.UNKNOWN, "simulated failure")
    elif simulation.mode is Mode.DOWNLOAD:
        await simulate_download(simulation, environment.target, expected)
    elif environment.protocols:
        sequence = environment.protocol_sequence
        await run_attempts(environment.protocols, sequence, attempt, reporter)
    else:
        await simulate_attempt(simulation, _SIMULATED_PROTOCOL, environment.target)


@asynccontextmanager
async def _monitored(environment: Environment, expected: int, reporter: Reporter) -> AsyncIterator[Monitor]:
    """Report progress inside the block; afterwards no report is under way any more (AR-710 step 5)."""
    watched = Watched(environment.target, environment.hub_cache / "xet", environment.progress_interval)
    monitor = Monitor(watched, reporter, expected)
    async with asyncio.TaskGroup() as group:
        group.create_task(monitor.follow())
        try:
            yield monitor
        finally:
            monitor.stop()
