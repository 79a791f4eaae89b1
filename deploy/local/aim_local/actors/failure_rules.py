"""Failures by rule instead of annotation: which objects, and what. Pure functions over plain data."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from aim_local.actors.failures import Failure, Role, Wanted
from aim_local.actors.objects import labels_of, matches
from controller_runtime import JsonObject


class RuleError(ValueError):
    """A rule that can't be; the text says what is wrong with which member."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A failure for all objects that it describes.

    Attributes:
        wanted: the failure.
        kind: kind of the objects; empty for all. A rule for a Job or an InferenceService holds for its pods.
        namespace: glob.
        name: glob.
        labels: labels that they have.
        role: pods of this role only.
    """

    wanted: Wanted
    kind: str = ""
    namespace: str = "*"
    name: str = "*"
    labels: Mapping[str, str] = field(default_factory=dict)
    role: Role | None = None

    def holds_for(self, objects: Iterable[JsonObject], role: Role) -> bool:
        """Whether one of the objects (a pod and its owners, say) is described."""
        return self.role in (None, role) and any(map(self._describes, objects))

    def _describes(self, obj: JsonObject) -> bool:
        metadata = obj["metadata"]
        return (
            self.kind in ("", obj["kind"])
            and fnmatchcase(metadata.get("namespace") or "", self.namespace)
            and fnmatchcase(metadata["name"], self.name)
            and matches(self.labels, labels_of(obj))
        )

    def to_json(self) -> JsonObject:
        """As the API shows it; `parse_rule` takes it back."""
        wanted = self.wanted
        members = {
            "failure": wanted.failure,
            "argument": wanted.argument,
            "log": wanted.log,
            "message": wanted.message,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "labels": dict(self.labels),
            "role": self.role or "",
        }
        return {name: value for name, value in members.items() if value}


def parse_rule(body: JsonObject) -> Rule:
    """The rule of a request.

    Raises:
        RuleError: an unknown member, failure or role, or a member that is no text.
    """
    unknown = set(body) - _MEMBERS
    if unknown:
        raise RuleError(f"{', '.join(sorted(unknown))}: no such member; there are {', '.join(sorted(_MEMBERS))}")
    texts = {name: str(value) for name, value in body.items() if isinstance(value, str | int | float)}
    labels = body.get("labels") or {}
    wrong = set(body) - set(texts) - {"labels"}
    if wrong or not isinstance(labels, dict):
        raise RuleError(f"{', '.join(sorted(wrong)) or 'labels'}: must be text (labels: an object of texts)")
    failure, role = texts.get("failure", ""), texts.get("role", "")
    if failure not in frozenset(Failure):
        raise RuleError(f"failure: {failure!r} is none; there are {', '.join(Failure)}")
    if role and role not in frozenset(Role):
        raise RuleError(f"role: {role!r} is none; there are {', '.join(Role)}")
    wanted = Wanted(Failure(failure), *(texts.get(name, "") for name in ("argument", "log", "message")))
    return Rule(
        wanted,
        texts.get("kind", ""),
        texts.get("namespace", "*"),
        texts.get("name", "*"),
        {str(name): str(value) for name, value in labels.items()},
        Role(role) if role else None,
    )


def first_match(
    rules: Iterable[Rule], objects: Collection[JsonObject], role: Role, among: Collection[Failure]
) -> Wanted | None:
    """The failure of the first rule that holds."""
    return next((rule.wanted for rule in rules if rule.wanted.failure in among and rule.holds_for(objects, role)), None)


_MEMBERS: Final = frozenset({"failure", "argument", "log", "message", "kind", "namespace", "name", "labels", "role"})
