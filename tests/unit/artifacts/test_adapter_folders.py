"""What a download does on a disk that it shares with other adapters (LA-025, LA-026)."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aim_artifacts.downloader.adapter import SharedDisk, check_adapter, clear_left_overs, read_shared_disk
from aim_artifacts.downloader.failure import DownloadError
from aim_artifacts.downloader_contract import ExitCode
from controller_runtime.testing import NOW


def folder(disk: Path, name: str, age: timedelta, *, made_by_download: bool = True) -> Path:
    found = disk / name
    found.mkdir()
    (found / "adapter_model.safetensors").write_bytes(b"x")
    if made_by_download:
        mark = found / ".aim-adapter"
        mark.touch()
        moment = (NOW - age).timestamp()
        os.utime(mark, (moment, moment))
    return found


@pytest.mark.spec("LA-026")
def test_folders_of_adapters_that_are_gone_make_room(tmp_path: Path) -> None:
    old = timedelta(hours=2)
    own, kept, gone = (folder(tmp_path, name, old) for name in ("own", "kept", "gone"))
    made_meanwhile = folder(tmp_path, "made-meanwhile", timedelta(minutes=-5))
    just_before = folder(tmp_path, "just-before", timedelta(minutes=59))
    foreign = folder(tmp_path, "lost+found", old, made_by_download=False)
    clear_left_overs(own, SharedDisk(frozenset({"own", "kept"}), NOW))
    assert not gone.exists()
    assert all(one.exists() for one in (own, kept, made_meanwhile, just_before, foreign))


@pytest.mark.spec("LA-026")
def test_the_disk_as_the_platform_says_it() -> None:
    assert read_shared_disk({}) is None, "weights have a volume for themselves"
    found = read_shared_disk({"AIM_ADAPTER_FOLDERS": "a,b", "AIM_ADAPTER_PLANNED_AT": "2026-01-02T03:04:05Z"})
    assert found == SharedDisk(frozenset({"a", "b"}), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    for wrong in ("", "yesterday", "2026-01-02T03:04:05"):
        with pytest.raises(DownloadError) as caught:
            read_shared_disk({"AIM_ADAPTER_FOLDERS": "a", "AIM_ADAPTER_PLANNED_AT": wrong})
        assert caught.value.code is ExitCode.USAGE


@pytest.mark.spec("LA-025")
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "there is no adapter_config.json"),
        (b"not json", "is not a JSON object"),
        (b"[8]", "is not a JSON object"),
        (b"\xff\xfe", "is not a JSON object"),
        (b"{}", "r = None"),
        (b'{"r": 0}', "r = 0"),
        (b'{"r": true}', "r = True"),
        (b'{"r": "16"}', "r = '16'"),
    ],
)
def test_files_that_are_no_adapter(tmp_path: Path, content: bytes | None, problem: str) -> None:
    if content is not None:
        (tmp_path / "adapter_config.json").write_bytes(content)
    with pytest.raises(DownloadError, match="the source is no LoRA adapter") as caught:
        check_adapter(tmp_path)
    assert (caught.value.code, problem in caught.value.message) == (ExitCode.NO_MATCHING_FILES, True)


@pytest.mark.spec("LA-025")
def test_an_adapter_says_its_rank(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_bytes(b'{"peft_type": "LORA", "r": 16}')
    assert check_adapter(tmp_path) == 16
