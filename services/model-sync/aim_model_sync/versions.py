"""Version constraints of model sources: their grammar, and which tags satisfy them (MS-072…MS-092).

Plain SemVer precedence everywhere, prereleases included; there is no opt-in for prereleases as other ecosystems have.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from semver import Version

from aim_model_sync.codes import SelectorError, SyncCode

MAX_ENTRY: Final = 1024
"""Longest list entry, in characters; none that means anything is near it."""

_NUMBER: Final = r"(?:0|[1-9][0-9]{0,127})"
_IDENTIFIER: Final = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_PRERELEASE: Final = rf"{_IDENTIFIER}(?:\.{_IDENTIFIER})*"
_TAG: Final = re.compile(rf"v?({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_PRERELEASE}))?", re.ASCII)

_PART: Final = rf"(?:{_NUMBER}|[xX*])"
_VERSION: Final = rf"v?{_PART}(?:\.{_PART}(?:\.{_PART}(?:-{_PRERELEASE})?)?)?(?=[\s,]|$)"
_HYPHEN: Final = re.compile(rf"(?P<low>{_VERSION})\s+-\s+(?P<high>{_VERSION})", re.ASCII)
_COMPARISON: Final = re.compile(rf"(?P<operator>>=|<=|==|!=|[><=!~^])?\s*(?P<version>{_VERSION})", re.ASCII)
_SEPARATOR: Final = re.compile(r"\s*,\s*|\s+")
_LOWEST_PRERELEASE: Final = "0"


def parse_tag(tag: str) -> Version | None:
    """The semantic version that a tag is, after at most one leading ``v``; two components are none (MS-076)."""
    match = _TAG.fullmatch(tag)
    if match is None:
        return None
    return Version(int(match[1]), int(match[2]), int(match[3]), match[4])


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison with a version, by precedence."""

    compare: Callable[[Version, Version], bool]
    version: Version

    def admits(self, version: Version) -> bool:
        """Whether a version satisfies it."""
        return self.compare(version, self.version)


Range = tuple[Comparison, ...]
"""Comparisons that must all hold."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """One entry of a ``versions`` list.

    Attributes:
        alternatives: ranges of which one must hold.
        is_exact: whether the entry is nothing but a version (MS-088).
    """

    alternatives: tuple[Range, ...]
    is_exact: bool = False

    def admits(self, version: Version) -> bool:
        """Whether a version satisfies the entry."""
        return any(all(one.admits(version) for one in every) for every in self.alternatives)


@dataclass(frozen=True, slots=True)
class Constraints:
    """A whole ``versions`` list; an empty one admits every tag."""

    entries: tuple[Constraint, ...] = ()

    def admits(self, tag: str) -> bool:
        """Whether the tag is selected; tags that are no versions are skipped as soon as anything is asked (MS-075)."""
        if not self.entries:
            return True
        version = parse_tag(tag)
        if version is None:
            return False
        exact = [entry for entry in self.entries if entry.is_exact]
        ranges = [entry for entry in self.entries if not entry.is_exact]
        # Several exact versions are alternatives, or no list of two could ever match (MS-089).
        is_named = not exact or any(entry.admits(version) for entry in exact)
        return is_named and all(entry.admits(version) for entry in ranges)


UNCONSTRAINED: Final = Constraints()
"""Every tag will do."""


def effective_versions(own: Sequence[str], common: Sequence[str]) -> tuple[str, ...]:
    """The list that applies to a filter: its own if it has any entry, else the source's (MS-072)."""
    return tuple(own or common)


def parse_constraints(entries: Iterable[str]) -> Constraints:
    """Read a ``versions`` list.

    Raises:
        SelectorError: ``InvalidVersionConstraint``, quoting the entry (MS-092).
    """
    return Constraints(tuple(parse_constraint(entry) for entry in entries))


def parse_constraint(entry: str) -> Constraint:
    """Read one entry (MS-087).

    Raises:
        SelectorError: ``InvalidVersionConstraint``, quoting the entry.
    """
    if len(entry) > MAX_ENTRY:
        raise _invalid(entry[:64] + "…", f"it is longer than {MAX_ENTRY} characters")
    alternatives = tuple(_range(entry, text.strip()) for text in entry.split("||"))
    return Constraint(alternatives, is_exact=_is_exact(entry.strip()))


def _is_exact(text: str) -> bool:
    match = _COMPARISON.fullmatch(text)
    return match is not None and (match["operator"] or "=") in ("=", "==") and not _has_wildcard(match["version"])


def _range(entry: str, text: str) -> Range:
    comparisons: list[Comparison] = []
    position = 0
    while True:
        match = _HYPHEN.match(text, position) or _COMPARISON.match(text, position)
        if match is None:
            raise _invalid(entry, f"there is no version at {text[position:] or 'its end'!r}")
        comparisons += _comparisons(entry, match)
        if match.end() == len(text):
            return tuple(comparisons)
        separator = _SEPARATOR.match(text, match.end())
        assert separator is not None, "a version ends before a separator or at the end"
        position = separator.end()


def _comparisons(entry: str, match: re.Match[str]) -> Range:
    groups = match.groupdict()
    if "low" in groups:
        return (Comparison(operator.ge, _padded(groups["low"])), Comparison(operator.le, _padded(groups["high"])))
    symbol, text = groups["operator"] or "", groups["version"]
    if _has_wildcard(text) and symbol not in _WITH_WILDCARD:
        raise _invalid(entry, f"{symbol} cannot be combined with the x-range {text}")
    return _RANGES[symbol](text)


def _padded(text: str) -> Version:
    """The version with missing and ``x`` parts as zero (MS-085, MS-086)."""
    core, _, prerelease = text.removeprefix("v").partition("-")
    numbers = [0 if part in "xX*" else int(part) for part in core.split(".")]
    major, minor, patch = [*numbers, 0, 0][:3]
    return Version(major, minor, patch, prerelease or None)


def _has_wildcard(text: str) -> bool:
    return any(part in ("x", "X", "*") for part in text.removeprefix("v").partition("-")[0].split("."))


def _known_parts(text: str) -> int:
    parts = text.removeprefix("v").partition("-")[0].split(".")
    return next((at for at, part in enumerate(parts) if part in ("x", "X", "*")), len(parts))


def _below(major: int, minor: int, patch: int) -> Comparison:
    """Below a version and all its prereleases (MS-081)."""
    return Comparison(operator.lt, Version(major, minor, patch, _LOWEST_PRERELEASE))


def _tilde(text: str) -> Range:
    low = _padded(text)
    upper = _below(low.major, low.minor + 1, 0) if _known_parts(text) > 1 else _below(low.major + 1, 0, 0)
    return (Comparison(operator.ge, low), upper)


def _caret(text: str) -> Range:
    """The left-most non-zero part is fixed; of what is not written nothing is (MS-080)."""
    low, known = _padded(text), _known_parts(text)
    if low.major or known == 1:
        upper = _below(low.major + 1, 0, 0)
    elif low.minor or known == 2:
        upper = _below(0, low.minor + 1, 0)
    else:
        upper = _below(0, 0, low.patch + 1)
    return (Comparison(operator.ge, low), upper)


def _equal(text: str) -> Range:
    if not _has_wildcard(text):
        return (Comparison(operator.eq, _padded(text)),)
    return _tilde(text) if _known_parts(text) else ()


def _simple(compare: Callable[[Version, Version], bool]) -> Callable[[str], Range]:
    return lambda text: (Comparison(compare, _padded(text)),)


_RANGES: Final[Mapping[str, Callable[[str], Range]]] = MappingProxyType(
    {
        "": _equal,
        "=": _equal,
        "==": _equal,
        "!=": _simple(operator.ne),
        "!": _simple(operator.ne),
        ">=": _simple(operator.ge),
        ">": _simple(operator.gt),
        "<=": _simple(operator.le),
        "<": _simple(operator.lt),
        "~": _tilde,
        "^": _caret,
    }
)
_WITH_WILDCARD: Final = frozenset({"", "=", "==", "~", "^"})


def _invalid(entry: str, cause: str) -> SelectorError:
    return SelectorError(
        SyncCode.INVALID_VERSION_CONSTRAINT,
        f"version constraint {entry!r} cannot be read: {cause}; write for example '>=1.2.0', '~1.2.0' or '1.2.0'",
    )
