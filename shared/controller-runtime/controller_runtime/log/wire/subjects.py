"""Names on the bus: which subject carries which object, and back.

A subject token must not hold a dot, and wildcards have a meaning, so names are written as tokens: a dot becomes
``_`` (no Kubernetes object name of a DNS kind can hold one), everything else that is not a letter, digit or hyphen
is percent-encoded (role bindings may be called ``a:b``). ``%`` cannot occur in any name, so this can be undone.

The part `FACTS_PART` has several publishers, one per service: the service's name stands where others have the
namespace, and each has its own checkpoint.
"""

import string
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from controller_runtime.compact import shared
from controller_runtime.log.wire.part import Key
from controller_runtime.names import PREFIX

CLUSTER_SCOPE: Final = "-"
"""Stands in a subject where a cluster-scoped object has no namespace; no namespace can be called so."""

FACTS_PART: Final = "facts"
"""Name of the part of facts; the namespace of its keys is the service that gathered them."""

DEFAULT_ROOT: Final = PREFIX
_ROOT_CHARACTERS: Final = frozenset(string.ascii_lowercase + string.digits + "-")
_PLAIN: Final = frozenset(string.ascii_letters + string.digits + "-")


class SubjectError(ValueError):
    """A subject is not one that this layout makes."""


def encode_token(name: str) -> str:
    """An object's name as one subject token."""
    return "".join(_PLAIN_OR_DOT.get(char) or _escaped(char) for char in name)


def decode_token(token: str) -> str:
    """The name that `encode_token` was given."""
    return unquote(token.replace("_", "."))


_PLAIN_OR_DOT: Final = {**{char: char for char in _PLAIN}, ".": "_"}


def _escaped(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode())


def _scope(namespace: str) -> str:
    return encode_token(namespace) if namespace else CLUSTER_SCOPE


_SHARD_FACTS: Final = f"{FACTS_PART}-"


def facts_part_name(shard: int) -> str:
    """Name of the part of the facts of a shard (FW-894)."""
    return f"{_SHARD_FACTS}{shard}" if shard else FACTS_PART


def is_facts_of_shard(part: str) -> bool:
    """Whether a part is that of the facts of a shard, which only its leader needs."""
    return part.startswith(_SHARD_FACTS)


def is_facts(part: str) -> bool:
    """Whether a part is that of the facts of any shard."""
    return part == FACTS_PART or is_facts_of_shard(part)


@dataclass(frozen=True, slots=True)
class Layout:
    """Names of the streams and of every subject in them.

    Attributes:
        root: first token of every subject; streams are called after it. Installations that share a broker have a
            root each, and so have tests, because recreating a stream under the same name at once fails now and then.

    Raises:
        SubjectError: the root is more than one token of small letters, digits and hyphens.
    """

    root: str = DEFAULT_ROOT

    def __post_init__(self) -> None:
        if not self.root or not set(self.root) <= _ROOT_CHARACTERS:
            raise SubjectError(
                f"expected small letters, digits and hyphens for the root of all names, not {self.root!r}"
            )

    @property
    def state_stream(self) -> str:
        """The stream of the present: the last version of every object."""
        return f"{self.root.upper()}_STATE"

    @property
    def history_stream(self) -> str:
        """The stream of the past: every version."""
        return f"{self.root.upper()}_HISTORY"

    @property
    def decisions_stream(self) -> str:
        """The stream of the reasons: every decision record."""
        return f"{self.root.upper()}_DECISIONS"

    @property
    def state_subjects(self) -> tuple[str, ...]:
        """What the state stream stores."""
        return f"{self.root}.state.>", f"{self.root}.sync.>"

    @property
    def history_subjects(self) -> tuple[str, ...]:
        """What the history stream stores."""
        return (f"{self.root}.log.>",)

    @property
    def decision_subjects(self) -> tuple[str, ...]:
        """What the stream of decisions stores."""
        return (f"{self.root}.decision.>",)

    def state(self, part: str, key: Key) -> str:
        """Where the present version of an object lies."""
        return f"{self.root}.state.{part}.{_scope(key.namespace)}.{encode_token(key.name)}"

    def log(self, part: str, key: Key) -> str:
        """Where every version of an object is kept."""
        return f"{self.root}.log.{part}.{_scope(key.namespace)}.{encode_token(key.name)}"

    def sync(self, part: str, service: str = "") -> str:
        """The checkpoint of a part; facts have one per ``service``."""
        return f"{self.root}.sync.{part}.{encode_token(service)}" if service else f"{self.root}.sync.{part}"

    def decision(self, service: str, part: str, key: Key) -> str:
        """Where the decision records of one service about one object go."""
        scope = _scope(key.namespace)
        return f"{self.root}.decision.{encode_token(service)}.{part}.{scope}.{encode_token(key.name)}"

    def decisions(self, service: str) -> str:
        """All decision records of a service, without its settings."""
        return f"{self.root}.decision.{encode_token(service)}.*.*.*"

    def settings(self, service: str, digest: str) -> str:
        """Where the settings lie to which the decisions of a service refer; among the decisions, to live as long."""
        return f"{self.root}.decision.{encode_token(service)}.{digest}"

    def state_filter(self, part: str, service: str = "") -> str:
        """All present versions of a part, or those of a namespace; the facts of a service lie under its name."""
        return f"{self.root}.state.{part}.{encode_token(service)}.>" if service else f"{self.root}.state.{part}.>"

    def log_filter(self, part: str, service: str = "") -> str:
        """All versions of a part, or those of a namespace; the facts of a service lie under its name."""
        return f"{self.root}.log.{part}.{encode_token(service)}.>" if service else f"{self.root}.log.{part}.>"

    def log_within(self, namespace: str) -> str:
        """All versions of the objects of a namespace."""
        return f"{self.root}.log.*.{_scope(namespace)}.*"

    def parse_state(self, subject: str) -> tuple[str, Key]:
        """Part and key of a state subject.

        Raises:
            SubjectError: it is no state subject of this layout.
        """
        return self._parse(subject, "state")

    def parse_log(self, subject: str) -> tuple[str, Key]:
        """Part and key of a log subject.

        Raises:
            SubjectError: it is no log subject of this layout.
        """
        return self._parse(subject, "log")

    def parse_decision(self, subject: str) -> tuple[str, str, Key]:
        """Service, part and key of a decision subject.

        Raises:
            SubjectError: it is no decision subject of this layout.
        """
        head, _, rest = subject.removeprefix(f"{self.root}.decision.").partition(".")
        if not subject.startswith(f"{self.root}.decision."):
            raise SubjectError(f"{subject!r} is no decision subject of {self.root!r}")
        part, key = self._parse(f"{self.root}.decision.{rest}", "decision")
        return decode_token(head), part, key

    def _parse(self, subject: str, branch: str) -> tuple[str, Key]:
        tokens = subject.split(".")
        if len(tokens) != 5 or tokens[:2] != [self.root, branch] or not all(tokens):
            raise SubjectError(f"{subject!r} is no {branch} subject of {self.root!r}")
        _, _, part, scope, name = tokens
        namespace = "" if scope == CLUSTER_SCOPE else shared(decode_token(scope))
        return part, Key(namespace, shared(decode_token(name)))


DEFAULT_LAYOUT: Final = Layout()
"""The layout of an installation without another root."""
