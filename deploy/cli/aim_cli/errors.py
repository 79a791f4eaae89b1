"""Errors that a user can do something about, each with the code that the command ends with (FW-602)."""

from enum import IntEnum
from typing import ClassVar


class Exit(IntEnum):
    """How every command ends."""

    WELL = 0
    FOUND = 1
    """A problem, a difference, or an object that needs attention was found."""
    WORDS = 2
    """The words of the command or a file are wrong; of ``aim replay``: an outcome is undetermined."""
    ABSENT = 3
    UNREADABLE = 4
    """What no verdict ends with: an outage says nothing about objects."""


class CliError(Exception):
    """Ends a command with one line."""

    code: ClassVar[Exit]


class TargetError(CliError):
    """The words of the command name nothing that exists."""

    code = Exit.WORDS


class AbsentError(CliError):
    """What the command is about does not exist."""

    code = Exit.ABSENT


class UnreadableError(CliError):
    """A file cannot be read or understood."""

    code = Exit.WORDS


class UnreachableError(CliError):
    """The broker or the cluster does not answer, or refuses."""

    code = Exit.UNREADABLE
