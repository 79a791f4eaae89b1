"""Bills of materials, made by the command in surroundings that differ in all that could be told by one."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from aim_packaging.image_packages import IMAGES

ROOT = Path(__file__).parents[2]


async def made(folder: Path, **env: str) -> dict[str, bytes]:
    """What `aim_packaging sbom` writes with these variables and no others."""
    await asyncio.to_thread(folder.mkdir)
    target = folder / "bills"
    arguments = ("--lock", str(ROOT / "requirements.lock"), "--images", str(ROOT / "deploy/images/packages.json"))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aim_packaging", "sbom", str(target), *arguments), cwd=folder, env=env
    )
    assert await process.wait() == 0
    return {one.name: one.read_bytes() for one in target.iterdir()}


@pytest.mark.spec("FW-544", "FW-722")
async def test_a_bill_is_the_same_in_other_surroundings(tmp_path: Path) -> None:
    path = {"PATH": os.environ["PATH"]}
    here = await made(tmp_path / "a", **path, HOME="/root", LANG="C", TZ="UTC", PYTHONHASHSEED="1")
    there = await made(
        tmp_path / "b",
        **path,
        HOME=str(tmp_path),
        LC_ALL="C.UTF-8",
        TZ="Asia/Tokyo",
        PYTHONHASHSEED="2",
        USER="somebody",
    )
    assert set(here) == {f"{image}.spdx.json" for image in IMAGES}
    assert here == there
