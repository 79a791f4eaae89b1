"""Copies what an image needs of a Debian into an empty folder: `python3 runtime_root.py FOLDER`, in a container of it.

The build stage of the images needs pip and so a whole Debian; at run time an image needs its Python, the C library and
a few others. Both have to be of the same release, as compiled libraries are taken from one to the other, so the small
root is taken out of the large one, by the lists of its package manager. It has no shell and no package manager. This
file uses the standard library alone.
"""

import compileall
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Final

_PACKAGES: Final = ("python3", "python-is-python3", "ca-certificates", "base-files", "tzdata", "libstdc++6")
_LEFT_OUT: Final = frozenset({"debconf", "dpkg", "openssl", "libc-bin", "perl-base", "tar"})
"""What packages need for being installed and configured, with what only these need."""
_PROGRAMS: Final = re.compile(r"python[0-9.]*")
_PROGRAM_FOLDERS: Final = ("usr/bin", "usr/sbin", "usr/games")
_UNUSED: Final = re.compile(
    r"usr/share/(?!ca-certificates/|zoneinfo/|doc/[^/]+/copyright$)"
    r"|usr/lib/python3\.\d+/(test|idlelib|lib2to3|pydoc_data|turtledemo)/"
    r"|usr/lib/python3/|usr/lib/systemd/|usr/lib/[^/]+-linux-gnu/gconv/"
    r"|etc/(cron|logrotate|update-motd|default|init|pam)|var/|.*/__pycache__/"
)
_MERGED: Final = ("bin", "sbin", "lib", "lib64")
"""Links into `usr`; lists of packages have the older paths."""
_USERS: Final = "root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n"
_GROUPS: Final = "root:x:0:\nnogroup:x:65534:\n"
_BUNDLE: Final = "etc/ssl/certs/ca-certificates.crt"
_TIME: Final = 1735689600


def build(root: Path) -> None:
    """Fill an empty folder with the root of an image."""
    for name in _MERGED:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for path in sorted(set(_files(_closure(_PACKAGES)))):
        _copy(Path("/", path), root / path)
    # The downloader's scripts begin with `#!/usr/bin/env python`.
    _copy(Path("/usr/bin/env"), root / "usr/bin/env")
    for name, text in (("etc/passwd", _USERS), ("etc/group", _GROUPS), ("etc/nsswitch.conf", "hosts: files dns\n")):
        (root / name).write_text(text, encoding="utf-8")
    _authorities(root)
    for name in ("proc", "sys", "dev", "run", "root", "tmp"):
        (root / name).mkdir(exist_ok=True)
    compileall.compile_dir(
        root / f"usr/lib/python3.{sys.version_info.minor}",
        quiet=2,
        stripdir=str(root),
        prependdir="/",
        invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
    )
    for one in (root, *root.rglob("*")):
        os.utime(one, (_TIME, _TIME), follow_symlinks=False)
    (root / "tmp").chmod(0o1777)


def _closure(names: Iterable[str]) -> set[str]:
    """Packages with all that they depend on."""
    waiting, found = list(names), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in found and name not in _LEFT_OUT:
            found.add(name)
            waiting += _depends_on(name)
    return found


def _depends_on(name: str) -> Iterator[str]:
    """The first package of each alternative that is installed."""
    said = _query("-f", "${Pre-Depends},${Depends}", "-W", name)
    for alternatives in said.split(","):
        for one in alternatives.split("|"):
            other = one.split("(")[0].strip().partition(":")[0]
            if other and _is_installed(other):
                yield other
                break


def _is_installed(name: str) -> bool:
    return any(Path("/var/lib/dpkg/info").glob(f"{name}.list")) or any(
        Path("/var/lib/dpkg/info").glob(f"{name}:*.list")
    )


def _files(packages: Iterable[str]) -> Iterator[str]:
    """Paths without the leading slash."""
    for line in (line[1:] for name in packages for line in _query("-L", name).splitlines()):
        path = f"usr/{line}" if line.partition("/")[0] in _MERGED else line
        folder, _, name = path.rpartition("/")
        is_program = folder in _PROGRAM_FOLDERS and not _PROGRAMS.fullmatch(name)
        if path not in {"", "."} and not is_program and not _UNUSED.match(path):
            yield path


def _query(*arguments: str) -> str:
    command = ["dpkg-query", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603


def _copy(source: Path, target: Path) -> None:
    if source.is_dir() and not source.is_symlink():
        target.mkdir(parents=True, exist_ok=True)
    elif os.path.lexists(source):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)


def _authorities(root: Path) -> None:
    """Debian's certificates as one file, where OpenSSL looks by default; what the machine adds is left out."""
    found = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    (root / _BUNDLE).parent.mkdir(parents=True, exist_ok=True)
    (root / _BUNDLE).write_bytes(b"".join(one.read_bytes() for one in found))
    place = root / "usr/lib/ssl/cert.pem"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(f"/{_BUNDLE}")


if __name__ == "__main__":
    build(Path(sys.argv[1]))
