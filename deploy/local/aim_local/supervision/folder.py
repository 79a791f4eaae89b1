"""A folder that one owner at a time works in."""

import fcntl
import os
import shutil
from pathlib import Path
from typing import IO, final

from aim_local.supervision.process import StackError


@final
class OwnFolder:
    """A folder with a lock that ends with this process."""

    def __init__(self, path: Path, advice: str) -> None:
        """``advice`` tells how to name another folder."""
        self.path = path
        self._advice = advice
        self._lock: IO[str] | None = None

    @property
    def taken(self) -> bool:
        """Whether it is ours."""
        return self._lock is not None

    def take(self) -> None:
        """Make the folder and lock it.

        Raises:
            StackError: it cannot be used, or another process works in it.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / "lock").open("a+", encoding="utf-8")
        except OSError as error:
            raise StackError(
                f"the folder {self.path} cannot be used: {error.strerror}; name another one: {self._advice}"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            lock.close()
            raise StackError(
                f"process {holder} works in the folder {self.path} already; stop it with `kill {holder}`, "
                f"or name another folder: {self._advice}"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock

    def clean(self, *names: str) -> None:
        """Remove files and folders in it."""
        for name in names:
            place = self.path / name
            if place.is_dir():
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)

    def release(self) -> None:
        """Let others have it."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
