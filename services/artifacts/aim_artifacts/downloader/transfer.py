"""The transfer process: does what its standard input says and ends with an exit code of AR-764.

It is a process of its own so that it can be killed when it stalls, and so that the Hub client, which reads its
environment when it is imported, takes a protocol per attempt.
"""

import os
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Final

from aim_artifacts.downloader.child import REPORT
from aim_artifacts.downloader.ending import end
from aim_artifacts.downloader.failure import DownloadError, log
from aim_artifacts.downloader_contract import ExitCode
from controller_runtime import JsonObject, loads

_FOREVER: Final = 1_000_000


class Kind(StrEnum):
    """What a transfer process can do."""

    HUB = "hub"
    S3 = "s3"
    HANG = "hang"


def main() -> int:
    """Read the job, carry it out, report a failure to the parent."""
    job = loads(sys.stdin.buffer.read())
    try:
        _run(job)
    except DownloadError as error:
        return _report(error)
    return ExitCode.SUCCESS


def _run(job: JsonObject) -> None:
    if job["kind"] == Kind.HANG:
        time.sleep(_FOREVER)
        return
    # Imported here: a simulated hang needs neither client.
    from aim_artifacts.downloader.error_mapping import download_error  # noqa: PLC0415

    try:
        _hub(job) if job["kind"] == Kind.HUB else _s3(job)
    except Exception as error:
        raise download_error(error) from error


def _hub(job: JsonObject) -> None:
    from aim_artifacts.downloader import hub  # noqa: PLC0415

    files = [hub.RemoteFile(**file) for file in job["files"]]
    hub.transfer(job["repo"], job["commit"], files, Path(job["target"]), job["workers"])


def _s3(job: JsonObject) -> None:
    from aim_artifacts.downloader import s3  # noqa: PLC0415
    from aim_artifacts.downloader.s3_client import open_client  # noqa: PLC0415

    objects = [s3.RemoteObject(**item) for item in job["objects"]]
    s3.copy(open_client(os.environ, job["workers"]), job["bucket"], objects, Path(job["target"]), job["workers"])


def _report(error: DownloadError) -> int:
    try:
        Path(os.environ[REPORT]).write_bytes(error.termination_message())
    except (KeyError, OSError) as problem:
        log(f"{error.line()} (not reported: {problem})")
    return int(error.code)


if __name__ == "__main__":
    end(main())
