"""What the services would write: every plan that any test makes, watched where reconcilers are made."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any
from unittest.mock import patch

from aim_shared.api.meta import Resource
from aim_shared.bus.part import Part
from aim_shared.bus.view import View
from aim_shared.json import JsonObject, canonical, loads
from aim_shared.reconcile.child_body import Target, with_owner
from aim_shared.reconcile.plan import Plan, WriteMode
from aim_shared.reconcile.reconciler import Reconciler

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


def watch_plans(watcher: Callable[[PlannedWrite], None]) -> None:
    """Show every write of every plan to ``watcher``, for the rest of the process.

    Call it before the services are imported: reconcilers made earlier are not watched.
    """
    make = Reconciler.__init__

    def watched(self: Reconciler[Any], *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **named)
        reconcile = self.reconcile

        def watched_reconcile(obj: Any, view: View, now: datetime) -> Plan:
            plan: Plan = reconcile(obj, view, now)
            for write in planned_writes(self.part, obj, plan):
                watcher(write)
            return plan

        object.__setattr__(self, "reconcile", watched_reconcile)

    patch.object(Reconciler, "__init__", watched).start()


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
