"""How the program fails: an exit code, a termination message and a line for people (AR-764, AR-765)."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from aim_artifacts.downloader_contract import CATEGORY_OF_CODE, TERMINAL_CODES, ExitCode, FailureCategory
from aim_domain import masked
from controller_runtime import dumps

_MAX_TERMINATION_BYTES: Final = 4096
_MAX_TEXT: Final = 1000
_CREDENTIAL: Final = re.compile(r"(TOKEN|SECRET|PASSWORD|ACCESS_KEY|API_KEY)$")
"""Variables that hold one, by the end of their names."""
_SHORTEST: Final = 6
"""Characters of a value that is hidden; a shorter one would be found in any text."""

_PHRASES: Final[Mapping[ExitCode, str]] = MappingProxyType(
    {
        ExitCode.AUTH: "huggingface or s3 unauthorized, authentication failed",
        ExitCode.SOURCE_NOT_FOUND: "Repository Not Found (or NoSuchKey)",
        ExitCode.STORAGE_FULL: "no space left on device",
    }
)
"""Phrases that the log patterns of AR-348 recognise, for readers who know no exit codes."""


def hidden(text: str, variables: Mapping[str, str] = os.environ) -> str:
    """The text without the credentials of the environment: a host may answer with what it was sent (FW-596)."""
    values = [value for name, value in variables.items() if _CREDENTIAL.search(name) and len(value) >= _SHORTEST]
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, "***")
    return masked(text)


class DownloadError(Exception):
    """The program cannot go on; the exit code says why."""

    def __init__(self, code: ExitCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = hidden(message)

    @property
    def is_terminal(self) -> bool:
        """Whether no other protocol could help (AR-727)."""
        return self.code in {*TERMINAL_CODES, ExitCode.USAGE}

    def line(self) -> str:
        """One line for the log."""
        phrase = _PHRASES.get(self.code)
        return f"error: {phrase}: {self.message}" if phrase else f"error: {self.message}"

    def termination_message(self) -> bytes:
        """The JSON of AR-765, short enough for the kubelet."""
        category = CATEGORY_OF_CODE.get(self.code, FailureCategory.UNKNOWN)
        message = dumps({"category": category.value, "message": self.message[:_MAX_TEXT]})
        if len(message) <= _MAX_TERMINATION_BYTES:
            return message
        return dumps({"category": category.value, "message": self.message[: _MAX_TEXT // 4]})


def log(text: str) -> None:
    """One line of diagnostics, on stderr so that results stay alone on stdout (AR-772)."""
    print(hidden(text), file=sys.stderr, flush=True)


def write_termination_message(path: Path, content: bytes) -> None:
    """Leave a message for the kubelet; without such a file there is no reader."""
    try:
        path.write_bytes(content)
    except OSError as error:
        log(f"warning: the termination message cannot be written to {path}: {error}")


def give_up(error: DownloadError, termination_path: Path) -> int:
    """Say everywhere why, and return the exit code."""
    write_termination_message(termination_path, error.termination_message())
    log(error.line())
    return int(error.code)
