"""Services and downloads of a platform as containers of their images, on a read-only file system under their users.

`AIM_TEST_IMAGES` names the folder with the trees (`support.images`); without it, programs are those of this checkout.
The network is the machine's, so addresses and variables are those that the platform has set.
"""

import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from support.forks import fork
from support.images import given, image, wrapped, wrapped_env
from support.pod_root import Mount

from aim_domain.services import SERVICES
from aim_local.processes import Child
from aim_local.supervision.process import Program, spawn

IMAGES: Final = os.environ.get("AIM_TEST_IMAGES", "")
_OF_THE_MACHINE: Final = frozenset({"PATH", "HOME", "PYTHONPATH", "TMPDIR"})


async def contained(program: Program, log: Path) -> Child:
    """Start a program of a stack; services from the trees, and the kubelet's downloads, too."""
    folder = Path(IMAGES)
    if program.name in SERVICES:
        return await spawn(_service(program, log, folder), log)
    if program.name == "actors":
        path = f"PYTHONPATH={wrapped_env()['PYTHONPATH']}"
        runtime = ["/usr/bin/env", path, sys.executable, "-m", "support.image_downloader", str(folder)]
        program = dataclasses.replace(program, command=[*program.command, "--runtime", json.dumps(runtime)])
    return await fork(program, log)


def _service(program: Program, log: Path, folder: Path) -> Program:
    own = image(folder, program.name)
    env = own_variables(program.env)
    # A container has the image's default, its own /tmp.
    env.pop("AIM_WATCHDOG_FOLDER", None)
    mounts = files_of(env, own.user)
    temporary = log.parent / f"{program.name}.tmp"
    temporary.mkdir(exist_ok=True)
    given(temporary, own.user)
    container = own.container(empty_folder(), env, (*mounts, Mount(str(temporary), "/tmp", writable=True)))
    return dataclasses.replace(program, command=wrapped(container), env=wrapped_env())


def own_variables(env: Mapping[str, str]) -> dict[str, str]:
    """What was set for a program, and not inherited from whoever runs the tests."""
    return {name: value for name, value in env.items() if os.environ.get(name) != value and name not in _OF_THE_MACHINE}


def files_of(env: Mapping[str, str], user: int) -> list[Mount]:
    """Files and folders that variables name, at the same paths; the user may read them."""
    found = [Path(value) for value in env.values() if value.startswith("/") and Path(value).exists()]
    for path in found:
        given(path, user)
    return [Mount(str(path), str(path)) for path in found]


def empty_folder() -> Path:
    """A mount point; nothing is ever in it, as a container's mounts are its own."""
    folder = Path(tempfile.gettempdir()) / "aim-empty-root"
    folder.mkdir(exist_ok=True)
    return folder
