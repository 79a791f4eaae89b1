"""Becomes a container: `python -m support.pod_root SPEC` with a `Container` as JSON.

The process gets a file system of its own: the interpreter and libraries of this machine in place of the base image, the
tree of an image, and volumes at the paths of their mounts. All of it can be read only, but volumes that are said to be
writable. Then it becomes the image's user, without a way to other rights, and runs the program; process, network and
signals stay those of the machine. Needs Linux, and root or the right to make user namespaces.
"""

import ctypes
import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from aim_local.processes import end_with_parent

_NEW_MOUNTS: Final = 0x00020000
_NEW_USERS: Final = 0x10000000
_READ_ONLY: Final = 0x1
_NO_SUID: Final = 0x2
_NO_DEVICES: Final = 0x4
_REMOUNT: Final = 0x20
_BIND: Final = 0x1000
_RECURSIVE: Final = 0x4000
_PRIVATE: Final = 0x40000
_NO_NEW_PRIVILEGES: Final = 38
_BASE: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ssl", "/etc/localtime", "/proc")
_PROGRAMS: Final = ("usr/bin", "usr/local/bin", "bin")
_SHELLS: Final = ("sh", "dash", "bash", "rbash", "busybox", "zsh", "ksh")
_DEVICES: Final = ("null", "zero", "random", "urandom")


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of this machine at a path of the container."""

    source: str
    path: str
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Container:
    """What to run.

    Attributes:
        root: an empty folder, over which the file system is mounted for this process alone.
        command: program and arguments.
        env: all variables.
        user: of the process, and its group.
        hosts: what names stand for, as in `/etc/hosts`.
        hidden: folders of the base that are not to be seen, such as packages of the system's Python.
    """

    root: str
    command: tuple[str, ...]
    env: dict[str, str]
    mounts: tuple[Mount, ...]
    user: int
    hosts: dict[str, str]
    hidden: tuple[str, ...] = ()

    def to_json(self) -> str:
        """For the command line of this module."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Container":
        """What `to_json` wrote."""
        data = json.loads(text)
        mounts = tuple(Mount(**one) for one in data.pop("mounts"))
        return cls(**{**data, "command": tuple(data["command"]), "hidden": tuple(data["hidden"])}, mounts=mounts)


def is_allowed() -> bool:
    """Whether this machine lets us do it: tried in a child, since there is no way back."""
    child = os.fork()
    if child == 0:
        try:
            _own_namespaces(os.geteuid())
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def become(container: Container) -> None:
    """Replace this process by the program of the container.

    Raises:
        OSError: this machine does not allow it, or something to be mounted does not exist.
    """
    parent = os.getppid()
    _own_namespaces(container.user)
    root = Path(container.root)
    _mount("tmpfs", root, "tmpfs", _NO_SUID | _NO_DEVICES, "mode=0755")
    for path in (*_BASE, sys.base_prefix):
        if Path(path).is_symlink():
            (root / path[1:]).symlink_to(Path(path).readlink())
        elif Path(path).exists() and not (root / path[1:]).exists():
            _bind(Mount(path, path), root)
    for hidden in container.hidden:
        if (root / hidden[1:]).is_dir():
            _mount("tmpfs", root / hidden[1:], "tmpfs", _READ_ONLY, "mode=0555")
    _hide_shells(root)
    for device in _DEVICES:
        _bind(Mount(f"/dev/{device}", f"/dev/{device}", writable=True), root)
    _write_names(root / "etc", container)
    # A folder before what is in it.
    for mount in sorted(container.mounts, key=lambda one: one.path):
        _bind(mount, root)
    _mount(None, root, None, _BIND | _REMOUNT | _READ_ONLY | _NO_SUID | _NO_DEVICES)
    os.chroot(root)
    os.chdir("/")
    _drop_rights(container.user)
    # A change of the user takes this back.
    if end_with_parent(parent, signal.SIGKILL):
        os.execve(container.command[0], container.command, container.env)


def _own_namespaces(user: int) -> None:
    """Mounts of our own; who is not root becomes so in a user namespace, in which its number is the image's user."""
    outside, group = os.geteuid(), os.getegid()
    if outside == 0:
        _check(_LIBC.unshare(_NEW_MOUNTS), "unshare")
    else:
        _check(_LIBC.unshare(_NEW_MOUNTS | _NEW_USERS), "unshare")
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {outside} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{user} {group} 1", encoding="ascii")
    _mount(None, Path("/"), None, _RECURSIVE | _PRIVATE)


def _drop_rights(user: int) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    _check(_LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")


def _bind(mount: Mount, root: Path) -> None:
    source, target = Path(mount.source), root / mount.path[1:]
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount(str(source), target, None, _BIND | _RECURSIVE)
    if not mount.writable and mount.path != "/proc":
        kept = os.statvfs(target).f_flag & (_NO_SUID | _NO_DEVICES | os.ST_NOEXEC)
        _mount(None, target, None, _BIND | _REMOUNT | _READ_ONLY | kept)


def _hide_shells(root: Path) -> None:
    """A base image may have none (FW-721): what would run one fails here as it would there."""
    for folder in _PROGRAMS:
        if not (root / folder).is_symlink():
            # A link leads to a file that is hidden itself; followed from here, it may lead out of the root.
            for path in (root / folder / name for name in _SHELLS):
                if path.is_file() and not path.is_symlink():
                    _mount("/dev/null", path, None, _BIND)
                    _mount(None, path, None, _BIND | _REMOUNT | _READ_ONLY | _NO_SUID)


def _write_names(etc: Path, container: Container) -> None:
    etc.mkdir(exist_ok=True)
    hosts = {"localhost": "127.0.0.1", **container.hosts}
    (etc / "hosts").write_text("".join(f"{address} {name}\n" for name, address in hosts.items()), encoding="utf-8")
    user = f"nonroot:x:{container.user}:{container.user}::/:/sbin/nologin\n"
    (etc / "passwd").write_text(user, encoding="utf-8")


def _mount(source: str | None, target: Path, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [None if one is None else one.encode() for one in (source, str(target), kind)]
    _check(_LIBC.mount(*words, ctypes.c_ulong(flags), None if data is None else data.encode()), f"mount {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


_LIBC: Final = ctypes.CDLL(None, use_errno=True)

if __name__ == "__main__":
    become(Container.from_json(sys.argv[1]))
