"""What containers do and print: a discovery, the real downloader, an engine."""

import asyncio
import json
import os
import re
import shutil
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, final

from aim_domain import labels
from aim_local.actors.failures import Ending, Role
from aim_local.actors.objects import labels_of
from aim_local.actors.settings import ActorSettings, Weights, variables
from aim_local.processes import dying_with_parent, stop_process
from aim_local.registry import discovery_log, find_image
from controller_runtime import JsonObject, Key

LIMIT: Final = 256 * 1024
"""Bytes kept of a log; the oldest go first."""
_END_OF_LINE: Final = re.compile(rb"(?<=\n)")


_DISCOVERED: Final = frozenset({labels.TEMPLATE, labels.DISCOVERY_TARGET})
"""Labels of pods that look into an image: for a template, or for the profiles of a model."""


class ContainerKey(NamedTuple):
    """A container of a pod."""

    namespace: str
    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class WantedLines:
    """Which lines, and how.

    Attributes:
        tail: at most so many of those that are there.
        since: none from before; None: all.
        stamped: each begins with its time, as a kubelet writes it: always of the same length.
    """

    tail: int | None = None
    since: datetime | None = None
    stamped: bool = False


_ALL: Final = WantedLines()


@dataclass(slots=True)
class _Line:
    at: datetime
    text: bytearray


@final
class ContainerLog:
    """One log; `close` ends those who follow it."""

    def __init__(self) -> None:
        self._lines: deque[_Line] = deque()
        self._size = 0
        self._dropped = 0
        self._closed = False
        self._changed = asyncio.Event()

    def write(self, data: bytes) -> None:
        """Append output."""
        for piece in _END_OF_LINE.split(data):
            if not piece:
                continue
            if not self._lines or self._lines[-1].text.endswith(b"\n"):
                self._lines.append(_Line(datetime.now(UTC), bytearray()))
            self._lines[-1].text += piece
            self._size += len(piece)
        while self._size > LIMIT and len(self._lines) > 1:
            self._size -= len(self._lines.popleft().text)
            self._dropped += 1
        if self._size > LIMIT:
            # A line without an end, such as a progress bar.
            del self._lines[0].text[: self._size - LIMIT]
            self._size = LIMIT
        self._notify()

    def close(self) -> None:
        """Nothing will follow."""
        self._closed = True
        self._notify()

    def read(self, wanted: WantedLines = _ALL, limit_bytes: int | None = None) -> bytes:
        """The log so far, cut to a number of bytes from the start."""
        lines = [line for line in self._lines if wanted.since is None or line.at >= wanted.since]
        if wanted.tail is not None:
            lines = lines[-wanted.tail :] if wanted.tail else []
        return b"".join(_line_bytes(line, wanted) for line in lines)[:limit_bytes]

    async def follow(self, wanted: WantedLines = _ALL) -> AsyncIterator[bytes]:
        """The log so far, then what is printed, until the container ends."""
        position = self._position()
        yield self.read(wanted)
        while True:
            changed = self._changed
            fresh = self._fresh(position, wanted)
            position = self._position()
            if fresh:
                yield fresh
            elif self._closed:
                return
            else:
                await changed.wait()

    def _position(self) -> tuple[int, int]:
        """The last line, counted from the first that was ever written, and how much of it there is."""
        return self._dropped + len(self._lines) - 1, len(self._lines[-1].text) if self._lines else 0

    def _fresh(self, position: tuple[int, int], wanted: WantedLines) -> bytes:
        number, length = position
        begin = max(0, number - self._dropped)
        rest = b""
        if begin == number - self._dropped and self._lines:
            # The rest of a line that was printed in part.
            rest, begin = bytes(self._lines[begin].text[length:]), begin + 1
        return rest + b"".join(_line_bytes(line, wanted) for line in islice(self._lines, begin, None))

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _line_bytes(line: _Line, wanted: WantedLines) -> bytes:
    stamp = f"{line.at:%Y-%m-%dT%H:%M:%S.%f}000Z ".encode() if wanted.stamped else b""
    return stamp + bytes(line.text)


@final
class ContainerLogs:
    """The logs of one node."""

    def __init__(self) -> None:
        self._pods: dict[tuple[str, str], dict[str, list[ContainerLog]]] = {}

    def start(self, key: ContainerKey) -> ContainerLog:
        """A fresh log; the one before stays readable as the previous one."""
        log = ContainerLog()
        containers = self._pods.setdefault((key.namespace, key.pod), {})
        containers[key.container] = [*containers.get(key.container, [])[-1:], log]
        return log

    def find(self, key: ContainerKey, *, previous: bool = False) -> ContainerLog | None:
        """The container's log; None if it has not started (again)."""
        logs = self._pods.get((key.namespace, key.pod), {}).get(key.container, [])
        if previous:
            return logs[0] if len(logs) > 1 else None
        return logs[-1] if logs else None

    def drop_pod(self, namespace: str, pod: str) -> None:
        """Forget a pod that is gone."""
        self._pods.pop((namespace, pod), None)


_DOWNLOADERS: Final[Mapping[Role, str]] = {
    Role.DOWNLOAD: "aim_artifacts.downloader",
    Role.CHECK_SIZE: "aim_artifacts.downloader.check_size",
}
_CHUNK: Final = 16 * 1024
_PATIENCE: Final = 3.0
_MOUNTED_AT: Final = "/cache"
_ARTIFACT_ROLES: Final = {labels.COMPONENT_DOWNLOAD: Role.DOWNLOAD, labels.COMPONENT_CHECK_SIZE: Role.CHECK_SIZE}


def role_of(pod: JsonObject) -> Role:
    """What a pod is for, by the labels that the platform gives it."""
    own = labels_of(pod)
    if labels.KSERVE_INFERENCE_SERVICE in own:
        return Role.PREDICTOR
    # The service of that name has pods of the component, too; but they are of no template.
    if own.get(labels.APP_COMPONENT) == labels.APP_COMPONENT_DISCOVERY and _DISCOVERED & own.keys():
        return Role.DISCOVERY
    return _ARTIFACT_ROLES.get(own.get(labels.COMPONENT, ""), Role.OTHER)


@dataclass(frozen=True, slots=True)
class Execution:
    """A container about to run."""

    pod: JsonObject
    container: JsonObject
    role: Role
    env: Mapping[str, str]
    log: ContainerLog


async def run_program(execution: Execution, settings: ActorSettings) -> Ending:
    """Run the container's program to its end; servers never end by themselves."""
    role = execution.role
    if role is Role.DISCOVERY and execution.container.get("command"):
        return await _list_profiles(execution, settings)
    if role is Role.DISCOVERY:
        return _discover(execution)
    if role in _DOWNLOADERS and settings.weights is Weights.NOTHING:
        return Ending(log=_announced(execution.container))
    if role in _DOWNLOADERS:
        return await _download(execution, settings)
    if role is Role.OTHER and execution.pod["spec"].get("restartPolicy", "Always") != "Always":
        return Ending(log=_announced(execution.container))
    execution.log.write(_announced(execution.container).encode())
    await asyncio.get_running_loop().create_future()
    raise AssertionError("an unresolved future has a result")


def _announced(container: JsonObject) -> str:
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    return f"simulated: {container.get('image', '')} {' '.join(words)}".rstrip() + "\n"


def _discover(execution: Execution) -> Ending:
    printed = discovery_log(execution.container["image"], execution.env)
    if printed is None:
        return Ending(1, log="ERROR: no profile fits the requested GPU, metric and precision\n")
    return Ending(0, log=printed)


async def _list_profiles(execution: Execution, settings: ActorSettings) -> Ending:
    """Run the script that lists the profiles of an image, in a folder with the files that the image would have."""
    image = find_image(execution.container["image"])
    if image is None:
        return Ending(127, log="sh: not found\n")
    folder = settings.data / "containers" / execution.pod["metadata"]["uid"] / "profiles"
    for path, text in image.files().items():
        await asyncio.to_thread(_write, folder / path, text)
    process = await asyncio.create_subprocess_exec(
        *execution.container["command"],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={"PATH": os.environ.get("PATH", os.defpath), **image.environment(), "AIM_PROFILES": str(folder)},
        preexec_fn=dying_with_parent(signal.SIGTERM),
    )
    printed, _ = await process.communicate()
    return Ending(process.returncode or 0, log=printed.decode(errors="replace"))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


async def _download(execution: Execution, settings: ActorSettings) -> Ending:
    """Run the downloader as a child process; it ends with the actors however those end."""
    work = settings.data / "containers" / execution.pod["metadata"]["uid"]
    volume = volume_of(execution.pod, settings) or work / "volume"
    report = work / "termination-log"
    await asyncio.to_thread(_make, volume, work / "tmp")
    process = await asyncio.create_subprocess_exec(
        *_downloader(execution, settings),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=_downloader_environment(execution, settings, volume, work, report),
        cwd=volume,
        start_new_session=True,
        preexec_fn=dying_with_parent(signal.SIGTERM),
    )
    try:
        assert process.stdout is not None
        while chunk := await process.stdout.read(_CHUNK):
            execution.log.write(chunk)
        code = await process.wait()
        message = await asyncio.to_thread(_read, report)
        # A signal ends a container with 128 plus its number.
        return Ending(code if code >= 0 else 128 - code, message=message)
    finally:
        await stop_process(process, _PATIENCE)
        await asyncio.to_thread(shutil.rmtree, work, ignore_errors=True)


def _downloader(execution: Execution, settings: ActorSettings) -> list[str]:
    if settings.runtime:
        return [*settings.runtime, json.dumps(execution.pod)]
    return [sys.executable, "-m", _DOWNLOADERS[execution.role], *(execution.container.get("args") or ())]


def volume_of(pod: JsonObject, settings: ActorSettings) -> Path | None:
    """The folder behind the pod's first claim."""
    for volume in pod["spec"].get("volumes") or ():
        claim = volume.get("persistentVolumeClaim")
        if claim:
            return claim_folder(settings, Key(pod["metadata"]["namespace"], claim["claimName"]))
    return None


def claim_folder(settings: ActorSettings, claim: Key) -> Path:
    """Where the data of a claim lies."""
    return settings.data / "volumes" / claim.namespace / claim.name


def _downloader_environment(
    execution: Execution, settings: ActorSettings, volume: Path, work: Path, report: Path
) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "KUBECONFIG") if name in os.environ}
    source = next(iter(execution.container.get("args") or ()), "")
    env = inherited | variables(settings.weights, settings.hub_url, execution.env, source)
    env["MOUNT_PATH"] = str(volume)
    env["TARGET_DIR"] = f"{volume}{execution.env.get('TARGET_DIR', _MOUNTED_AT).removeprefix(_MOUNTED_AT)}"
    env.update({"TMPDIR": str(work / "tmp"), "HF_HOME": str(work / "tmp" / "hf")})
    env["AIM_TERMINATION_MESSAGE_PATH"] = str(report)
    return env


def _make(*folders: Path) -> None:
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")[:4096]
    except FileNotFoundError:
        return ""
