"""Labels of children: which of the parent's they get, and those that every child has (FW-220…FW-224, RC-090…RC-098)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from aim_domain import labels
from aim_domain.api.runtime_config import LabelPropagation
from aim_domain.naming import optional_label_value
from controller_runtime import Resource

MAX_PATTERNS: Final = 64
"""Patterns of one list that are read; the definition refuses more, which an older object may still hold (RC-165)."""
_OWNER_KEYS: Final = frozenset(
    {
        "app.kubernetes.io/instance",
        "app.kubernetes.io/managed-by",
        "pod-template-hash",
        "controller-revision-hash",
        "controller-uid",
        "job-name",
    }
)
"""Argo CD's label of old, Helm's, and what workload controllers find their pods by."""
_OWNER_PREFIXES: Final = ("olm.",)
_OWNER_DOMAINS: Final = (
    "argoproj.io",
    "fluxcd.io",
    "helm.sh",
    "kubectl.kubernetes.io",
    "applyset.kubernetes.io",
    "addonmanager.kubernetes.io",
    "batch.kubernetes.io",
    "config.kubernetes.io",
    "config.k8s.io",
    "cli-utils.sigs.k8s.io",
    "kustomize.config.k8s.io",
    "configmanagement.gke.io",
    "configsync.gke.io",
    "operators.coreos.com",
    "cattle.io",
    "k14s.io",
    "carvel.dev",
    "crossplane.io",
    "kro.run",
    "pulumi.com",
    "tanka.dev",
    "skaffold.dev",
)
"""Domains of keys, with all below them, by which tools find what they have applied."""
MAX_PATTERN: Final = 317
"""Characters of a pattern: the longest label key has as many (RC-165)."""

_Token: TypeAlias = Callable[[str], bool]
LabelPattern: TypeAlias = tuple[_Token | None, ...]
"""A valid pattern: what each of its characters accepts, ``None`` for a ``*``."""


def propagated_labels(parent: Mapping[str, str], settings: LabelPropagation | None) -> dict[str, str]:
    """Labels to put on a child, sorted by key; keys that the builder sets itself win over them (RC-093, FW-220)."""
    patterns = settings.match if settings is not None and settings.enabled else ()
    return {key: value for key, value in sorted(parent.items()) if is_propagated(key, patterns)}


def is_propagated(key: str, patterns: Iterable[str]) -> bool:
    """Whether a key is one of our own, or matches a pattern and claims nothing for another tool (RC-171)."""
    if key.startswith(labels.PREFIX):
        return True
    return not claims_ownership(key) and _matcher(tuple(patterns)[:MAX_PATTERNS]).accepts(key)


def claims_ownership(key: str) -> bool:
    """Whether a label or annotation tells a deployment tool that the object is its own (RC-171).

    On a child it would make Argo CD, Flux, Helm or kubectl prune what they have not applied; children that several
    services share would go with the first of them.

    >>> claims_ownership("kustomize.toolkit.fluxcd.io/name"), claims_ownership("app.kubernetes.io/part-of")
    (True, False)
    """
    domain, slash, _ = key.partition("/")
    if not slash:
        return key in _OWNER_KEYS or key.startswith(_OWNER_PREFIXES)
    return key in _OWNER_KEYS or any(domain == one or domain.endswith(f".{one}") for one in _OWNER_DOMAINS)


def matches(pattern: str, key: str) -> bool:
    """Whether a pattern matches the complete key; an invalid pattern matches nothing (RC-095, RC-098)."""
    return _matcher((pattern,)).accepts(key)


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> LabelPattern | None:
    """What a pattern consists of, ``None`` when it is invalid or too long (RC-072 reports it)."""
    if len(pattern) > MAX_PATTERN:
        return None
    tokens: list[_Token | None] = []
    position = 0
    while position < len(pattern):
        if pattern[position] == "*":
            if tokens[-1:] != [None]:
                tokens.append(None)
            position += 1
            continue
        token, position = _next(pattern, position)
        if token is None:
            return None
        tokens.append(token)
    return tuple(tokens)


class _Matcher:
    """All patterns of a list at once: one bit for each place before, between and after their tokens."""

    def __init__(self, patterns: Iterable[LabelPattern]) -> None:
        self._tokens: list[tuple[int, _Token]] = []
        self._starts = self._stars = self._ends = 0
        self._accepting: dict[str, int] = {}
        bit = 1
        for pattern in patterns:
            self._starts |= bit
            for token in pattern:
                if token is None:
                    self._stars |= bit
                else:
                    self._tokens.append((bit, token))
                bit <<= 1
            self._ends |= bit
            bit <<= 1

    def accepts(self, key: str) -> bool:
        places = self._past_stars(self._starts)
        for character in key:
            if not places:
                return False
            stay = 0 if character == "/" else places & self._stars
            places = self._past_stars((places & self._accepting_of(character)) << 1 | stay)
        return bool(places & self._ends)

    def _past_stars(self, places: int) -> int:
        """A star may also stand for nothing; no two follow each other."""
        return places | (places & self._stars) << 1

    def _accepting_of(self, character: str) -> int:
        known = self._accepting.get(character)
        if known is None:
            known = self._accepting[character] = sum(bit for bit, token in self._tokens if token(character))
        return known


@lru_cache(maxsize=256)
def _matcher(patterns: tuple[str, ...]) -> _Matcher:
    return _Matcher(found for pattern in patterns if (found := compile_pattern(pattern)) is not None)


def _next(pattern: str, position: int) -> tuple[_Token | None, int]:
    """What a character, or a class of them, accepts, and the place behind it; ``None`` when it is no valid one."""
    character = pattern[position]
    if character == "?":
        return (lambda given: given != "/"), position + 1
    if character == "[":
        return _class(pattern, position + 1)
    if character == "\\":
        position += 1
        if position == len(pattern):
            return None, position
        character = pattern[position]
    return character.__eq__, position + 1


def _class(pattern: str, position: int) -> tuple[_Token | None, int]:
    negated = pattern.startswith("^", position)
    position += negated
    ranges: list[tuple[str, str]] = []
    while position < len(pattern) and pattern[position] != "]":
        low, position = _member(pattern, position)
        high = low
        if pattern.startswith("-", position) and not pattern.startswith("-]", position):
            high, position = _member(pattern, position + 1)
        if not low or low > high:
            return None, position
        ranges.append((low, high))
    if position >= len(pattern) or not ranges:
        return None, position
    return (lambda given: any(low <= given <= high for low, high in ranges) is not negated), position + 1


def _member(pattern: str, position: int) -> tuple[str, int]:
    """A character of a class, without the backslash that escapes it; empty at the end of the pattern."""
    position += pattern.startswith("\\", position)
    return pattern[position : position + 1], position + 1


def child_labels(
    own: Mapping[str, str], *, parent: Resource, controller: str, propagation: LabelPropagation | None
) -> dict[str, str]:
    """The labels of a child: the builder's own, then propagated ones, then those of the controller (FW-220).

    Args:
        own: what the builder sets; these win.
        parent: the reconciled object.
        controller: its controller's name of FW-201.
        propagation: of the parent's merged runtime config.
    """
    name = optional_label_value(parent.name)
    by_controller = {
        labels.APP_MANAGED_BY: f"aim-{controller}-controller",
        **({f"{labels.PREFIX}{controller}.name": name} if name else {}),
    }
    return {**by_controller, **propagated_labels(parent.metadata.labels, propagation), **own}
