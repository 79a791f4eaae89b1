"""A LoRA adapter on a disk that it shares with others: its folder, what it must have, and what others left there."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from aim_artifacts.downloader.failure import DownloadError, log
from aim_artifacts.downloader_contract import ExitCode
from controller_runtime import dumps, loads

CONFIG: Final = "adapter_config.json"
_SETTLED: Final = timedelta(hours=1)
"""Longer than the clocks of two nodes differ, and a plan takes to become a pod."""
_MARK: Final = ".aim-adapter"


@dataclass(frozen=True, slots=True)
class SharedDisk:
    """What the platform says of the disk.

    Attributes:
        kept: folders of the adapters that were there when the download was planned.
        planned: when that was.
    """

    kept: frozenset[str]
    planned: datetime


def read_shared_disk(variables: Mapping[str, str]) -> SharedDisk | None:
    """The disk of an adapter; ``None`` for weights, which have a volume for themselves.

    Raises:
        DownloadError: usage error, naming the variable.
    """
    folders, planned = variables.get("AIM_ADAPTER_FOLDERS", ""), variables.get("AIM_ADAPTER_PLANNED_AT", "")
    if not folders:
        return None
    try:
        moment = datetime.fromisoformat(planned)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        what = f"AIM_ADAPTER_PLANNED_AT is {planned!r}, expected a time with its zone, such as 2026-01-02T03:04:05Z"
        raise DownloadError(ExitCode.USAGE, what)
    return SharedDisk(frozenset(folders.split(",")), moment)


def clear_left_overs(target: Path, disk: SharedDisk) -> None:
    """Delete the folders of adapters that are gone, so that their room is free (LA-026)."""
    (target / _MARK).touch()
    for folder in sorted(_left_overs(target, disk)):
        log(f"deleting {folder.name}: its adapter is gone")
        shutil.rmtree(folder, ignore_errors=True)


def _left_overs(target: Path, disk: SharedDisk) -> Iterator[Path]:
    for folder in target.parent.iterdir():
        # Only what a download has made: a disk may hold other things, such as lost+found.
        if folder == target or folder.name in disk.kept or not (folder / _MARK).is_file():
            continue
        made = datetime.fromtimestamp((folder / _MARK).stat().st_mtime, UTC)
        # An adapter that was made after the plan is in no list, so a young folder may be one's (LA-026).
        if made < disk.planned - _SETTLED:
            yield folder


def simulate_adapter(target: Path) -> None:
    """What a simulated download of an adapter has beside its data."""
    (target / CONFIG).write_bytes(dumps({"peft_type": "LORA", "r": 16}))


def check_adapter(target: Path) -> int:
    """The rank of the adapter (LA-025).

    Raises:
        DownloadError: the files are no LoRA adapter.
    """
    file = target / CONFIG
    try:
        rank = loads(file.read_bytes()).get("r")
    except FileNotFoundError as error:
        raise _no_adapter(f"there is no {CONFIG}") from error
    except (OSError, ValueError) as error:
        raise _no_adapter(f"{CONFIG} is not a JSON object: {error}") from error
    if not isinstance(rank, int) or isinstance(rank, bool) or rank < 1:
        raise _no_adapter(f"{CONFIG} says r = {rank!r}, which is no rank")
    return rank


def _no_adapter(why: str) -> DownloadError:
    message = f"the source is no LoRA adapter: {why}; name one whose files, {CONFIG} among them, lie in its top folder"
    return DownloadError(ExitCode.NO_MATCHING_FILES, message)
