"""Where built programs lie, under names that change with whatever they are made from."""

import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aim_local.assets.recipes import (
    CUTS,
    DEFINITIONS,
    PROGRAMS,
    Definitions,
    DefinitionsRecipe,
    Program,
    ProgramRecipe,
    Wrapper,
)

_HASH_LENGTH: Final = 12
_PARTIAL: Final = ".partial-"


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder outside the repository, with a folder in it per wrapper module and content of that module."""

    root: Path

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Cache":
        """The folder that `AIM_KUBE_ASSETS` names, else one in the user's cache."""
        if chosen := environment.get("AIM_KUBE_ASSETS"):
            return cls(Path(chosen).absolute())
        user_cache = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return cls(Path(user_cache) / "aim-engine" / "kube-assets")

    def program(self, program: Program) -> Path:
        """Where the program is or will be."""
        return self.folder(PROGRAMS[program].wrapper) / program

    def definitions(self, definitions: Definitions) -> Path:
        """The folder where the files are or will be."""
        return self.folder(DEFINITIONS[definitions].wrapper) / definitions

    @contextlib.contextmanager
    def locked(self, waiting: Callable[[str], None]) -> Iterator[None]:
        """Hold the cache for writing; ``waiting`` is called once when another process holds it."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / "lock").open("a+", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.seek(0)
                waiting(f"process {lock.read().strip() or 'unknown'} builds into {self.root}; waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def folder(self, wrapper: Wrapper) -> Path:
        """Where everything that is made with a wrapper is or will be."""
        return self.root / f"{wrapper.name}-{wrapper.version}-{fingerprint(wrapper)}"


def fingerprint(wrapper: Wrapper) -> str:
    """A short hash of all that decides what comes out: the wrapper's files, its recipes, and the platform."""
    digest = hashlib.sha256(f"{platform.system()}/{platform.machine()}".encode())
    for file in sorted(one for one in wrapper.folder.rglob("*") if one.is_file()):
        digest.update(f"\0{file.relative_to(wrapper.folder)}\0".encode())
        digest.update(file.read_bytes())
    # The cut copy that a wrapper needs is made from what its own wrapper pins.
    if cut := CUTS.get(wrapper.name):
        digest.update(fingerprint(cut.wrapper).encode())
    recipes: list[ProgramRecipe | DefinitionsRecipe] = [*PROGRAMS.values(), *DEFINITIONS.values()]
    digest.update("\0".join(repr(one) for one in recipes if one.wrapper == wrapper).encode())
    return digest.hexdigest()[:_HASH_LENGTH]


@contextlib.contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """An empty folder inside ``folder``, on the same file system, that is gone afterwards.

    Call it with the cache locked: what a killed build left behind is removed first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(f"{_PARTIAL}*"):
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=_PARTIAL, dir=folder) as made:
        yield Path(made)


@contextlib.contextmanager
def completed(target: Path) -> Iterator[Path]:
    """A place to make ``target`` at, which becomes it by a rename if nothing failed, and is removed otherwise.

    So what stands under its name is complete, however a build ended. Call it with the cache locked.
    """
    with scratch(target.parent) as folder:
        made = folder / target.name
        yield made
        if target.is_dir():
            shutil.rmtree(target)
        made.rename(target)
