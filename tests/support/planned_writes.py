"""What the services would write: every plan that any test makes, watched around the decision."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from controller_runtime import JsonObject, Part, Plan, Resource, WriteMode, canonical, loads
from controller_runtime.reconcile.child import Target, with_owner
from controller_runtime.reconcile.decide import Decision, Interceptor, Proceed

VARIABLE = "AIM_TEST_PLANNED_WRITES"
"""Environment variable: the file that a test run appends its planned writes to, when this module is its plugin."""


class Verb(StrEnum):
    """How the executor brings it about."""

    CREATE = "create"
    APPLY = "apply"
    STATUS = "status"


@dataclass(frozen=True, slots=True)
class PlannedWrite:
    """A whole object, or one with nothing but a status."""

    verb: Verb
    body: JsonObject

    def encode(self) -> bytes:
        """As a line of a file; equal writes give equal lines."""
        return canonical({"verb": self.verb, "body": self.body}) + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> "PlannedWrite":
        """From a line of a file."""
        decoded = loads(line)
        return cls(Verb(decoded["verb"]), decoded["body"])


_VERBS = {WriteMode.CREATE: Verb.CREATE, WriteMode.APPLY: Verb.APPLY}


def planned_writes(part: Part[Any], obj: Resource, plan: Plan) -> Iterator[PlannedWrite]:
    """The writes of a plan for an object."""
    metadata = obj.metadata
    where = {"name": metadata.name, **({"namespace": metadata.namespace} if metadata.namespace else {})}
    target = Target(part, {"metadata": {**where, "uid": metadata.uid}})
    for child in plan.children:
        yield PlannedWrite(_VERBS[child.mode], with_owner(target, child))
    if plan.status is not None:
        head = {"apiVersion": part.kind.api_version, "kind": part.kind.kind, "metadata": where}
        yield PlannedWrite(Verb.STATUS, {**head, "status": plan.status})


_WATCHERS: Final[list[Callable[[PlannedWrite], None]]] = []


def watch_plans(watcher: Callable[[PlannedWrite], None]) -> None:
    """Show every write of every plan to ``watcher``, for the rest of the process."""
    _WATCHERS.append(watcher)


class PlansWatched(Interceptor):
    """Shows what a decision would write to whoever watches plans."""

    def decide(self, decision: Decision[Any], proceed: Proceed) -> Plan:
        plan = proceed(decision)
        for write in planned_writes(decision.reconciler.part, decision.obj, plan):
            for watcher in _WATCHERS:
                watcher(write)
        return plan


def pytest_configure() -> None:
    """As a plugin (`-p support.planned_writes`): write down what is planned."""
    path = Path(os.environ[VARIABLE])
    known: set[bytes] = set()

    def write_down(write: PlannedWrite) -> None:
        line = write.encode()
        if line not in known:
            known.add(line)
            with path.open("ab") as file:
                file.write(line)

    watch_plans(write_down)
