"""Taking credentials out of JSON that leaves the installation (FW-621). Pure.

Secrets are never in the event log. What may be is a credential that somebody wrote where a reference belongs: in an
environment variable, an argument, an address, a message.
"""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Final, TypeAlias

from aim_domain.masking import masked

Json: TypeAlias = Any
"""Whatever JSON holds."""

_NAMES: Final = re.compile(r"(?:^|[_-])(?:tokens?|secret|passw(?:or)?d|credentials?|auth|key)$", re.IGNORECASE)
"""Of environment variables whose values nobody else should read."""
_MEMBERS: Final = re.compile(r"(?:token|password|api_?key|secret_?key|access_?key)$", re.IGNORECASE)
_OPTION: Final = re.compile(r"(--?[\w-]*(?:token|secret|password|api-key|access-key))(?:([= ])(\S+))?", re.IGNORECASE)
_SHORTEST: Final = 6
"""What is shorter also stands for something else: it is taken out where it is a credential, not wherever it stands."""


class Cover:
    """Puts the same cover over the same credential wherever it stands, so that what was equal stays equal.

    Attributes:
        known: what was found to be a credential → its cover.
    """

    def __init__(self, documents: Iterable[Json]) -> None:
        found = {value for document in documents for value in credentials(document)}
        self.known: Final = {value: f"***{number}" for number, value in enumerate(sorted(found), 1)}
        # The longest first: one may be part of another.
        everywhere = sorted((one for one in found if len(one) >= _SHORTEST), key=len, reverse=True)
        self._everywhere = re.compile("|".join(map(re.escape, everywhere))) if everywhere else None

    def over(self, value: Json) -> Json:
        """The JSON without credentials."""
        if isinstance(value, dict):
            return {self._text(key): self._member(value, key) for key in value}
        if isinstance(value, list):
            secret = {at for at, _ in _separate(value)}
            return [self._named(one) if at in secret else self.over(one) for at, one in enumerate(value)]
        return self._text(value) if isinstance(value, str) else value

    def _member(self, of: dict[str, Json], key: str) -> Json:
        value = of[key]
        return self._named(value) if isinstance(value, str) and _is_credential(of, key) else self.over(value)

    def _named(self, value: str) -> str:
        return self.known.get(value, value)

    def _text(self, text: str) -> str:
        inner = _json_inside(text)
        if inner is not None:
            return json.dumps(self.over(inner), separators=(",", ":"))
        if self._everywhere is not None:
            text = self._everywhere.sub(lambda match: self.known[match[0]], text)
        return masked(_OPTION.sub(self._option, text))

    def _option(self, match: re.Match[str]) -> str:
        return match[0] if match[3] is None else f"{match[1]}{match[2]}{self.known.get(match[3], match[3])}"


def credentials(value: Json) -> Iterator[str]:
    """Every text in some JSON that stands where a credential does."""
    if isinstance(value, dict):
        yield from (one for key, one in value.items() if isinstance(one, str) and one and _is_credential(value, key))
        for one in value.values():
            yield from credentials(one)
    elif isinstance(value, list):
        yield from (one for _, one in _separate(value))
        for one in value:
            yield from credentials(one)
    elif isinstance(value, str):
        inner = _json_inside(value)
        yield from credentials(inner) if inner is not None else ()
        yield from (match[3] for match in _OPTION.finditer(value) if match[3]) if inner is None else ()


def _is_credential(of: dict[str, Json], key: str) -> bool:
    name = of.get("name")
    if key == "value" and isinstance(name, str):
        return _NAMES.search(name) is not None
    return _MEMBERS.search(key) is not None


def _separate(arguments: list[Json]) -> Iterator[tuple[int, str]]:
    """Arguments that follow the option that they are for."""
    for at, (option, value) in enumerate(pairwise(arguments), 1):
        texts = isinstance(option, str) and isinstance(value, str)
        if texts and _OPTION.fullmatch(option) and "=" not in option and not value.startswith("-"):
            yield at, value


def _json_inside(text: str) -> Json:
    """What kubectl writes into annotations; ``None`` of other texts."""
    if not text.startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None
