"""Flags of the existing binary, put into the words of this one (FW-280)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final


def _level(value: str) -> list[str]:
    # A number is a verbosity: anything above zero asks for more than info.
    if value.isdecimal():
        value = "debug" if int(value) else "info"
    return ["--log-level", value]


def _devel(value: str) -> list[str]:
    return ["--log-level", "debug", "--log-format", "console"] if value != "false" else []


def _ignored(_: str) -> list[str]:
    return []


def _switch(name: str) -> Callable[[str], list[str]]:
    """``--name=false`` and the like, which Go's flags take; a value that is none stays for the error message."""

    def words(value: str) -> list[str]:
        if value.lower() in {"", "true", "t", "1"}:
            return [f"--{name}"]
        return [f"--no-{name}"] if value.lower() in {"false", "f", "0"} else [f"--{name}={value}"]

    return words


_SWITCHES: Final = frozenset({"--zap-devel", "--leader-elect", "--metrics-secure", "--direct-watch"})
_ALIASES: Final[Mapping[str, Callable[[str], list[str]]]] = {
    "--zap-devel": _devel,
    "--zap-encoder": lambda value: ["--log-format", value],
    "--zap-log-level": _level,
    "--zap-stacktrace-level": lambda value: ["--log-stacktrace-level", value],
    "--leader-elect": _switch("leader-elect"),
    "--metrics-secure": _switch("metrics-secure"),
    "--direct-watch": _switch("direct-watch"),
    # There are no webhooks whose certificates these could name.
    "--webhook-cert-path": _ignored,
    "--webhook-cert-name": _ignored,
    "--webhook-cert-key": _ignored,
}


def translated(argv: list[str]) -> list[str]:
    """The arguments with every known alias replaced."""
    return list(_words(iter(argv)))


def _words(remaining: Iterator[str]) -> Iterator[str]:
    for word in remaining:
        flag, joined, value = word.partition("=")
        alias = _ALIASES.get(flag)
        if alias is None:
            yield word
            continue
        if not joined and flag not in _SWITCHES:
            value = next(remaining, "")
        yield from alias(value)
