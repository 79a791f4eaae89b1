"""Takes recorded decisions again with today's code, from the log alone, and compares."""

import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from pydantic import ValidationError

from controller_runtime.bus.decision import DecisionRecord
from controller_runtime.bus.history import DecisionFilter, History, StoredDecision
from controller_runtime.json import canonical, loads
from controller_runtime.manager.settings import Settings, recorded
from controller_runtime.reconcile.decide import Decision, decide
from controller_runtime.reconcile.pass_record import BUG
from controller_runtime.reconcile.plan_json import abridged, plan_to_json
from controller_runtime.reconcile.reconciler import Reconciler, ServiceDefinition
from controller_runtime.replay.difference import differences
from controller_runtime.replay.past import Past, UntoldError, objects_of, scoped_part, searched_parts
from controller_runtime.replay.past_part import NotLoadedError
from controller_runtime.replay.reading import Reading, stretches
from controller_runtime.replay.view import ReplayView

_EVERY: Final = DecisionFilter()


class Verdict(StrEnum):
    """How a decision of today compares with the recorded one (FW-437)."""

    SAME = "same"
    DIFFERENT = "different"
    UNKNOWN = "undetermined"


@dataclass(frozen=True, slots=True)
class ServiceCode:
    """Today's code of a service: what `run_service` is given."""

    settings: type[Settings]
    definition: Callable[[Any], ServiceDefinition]


@dataclass(frozen=True, slots=True)
class Replayed:
    """One decision, taken again.

    Attributes:
        differences: members of the plan that differ, with both values; or the exception of today's code.
        missing: what the log cannot tell any more; not empty exactly when the verdict is ``UNKNOWN``.
        beyond: what today's code asked beyond the record; answered from the history as of that moment.
        otherwise: look-ups whose answer is another one today, with both.
    """

    stored: StoredDecision
    verdict: Verdict
    differences: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()


class _MissingError(Exception):
    """Something without which a decision cannot even be tried again."""


class Replayer:
    """Takes decisions again. Reads the log and writes nothing.

    Args:
        log: where the decisions and the versions of the objects are.
        services: today's code by service name.
    """

    def __init__(self, log: History, services: Mapping[str, ServiceCode]) -> None:
        self._log = log
        self._services = services
        self._definitions: dict[tuple[str, str], ServiceDefinition] = {}

    @property
    def unreadable(self) -> int:
        """Decision records that were asked for and that nobody can read: what they hold cannot be told."""
        return self._log.unreadable_decisions

    async def decisions(self, wanted: DecisionFilter = _EVERY) -> AsyncIterator[Replayed]:
        """Take every decision that matches again, in the order in which they were taken.

        Raises:
            BusError: the log cannot be read.
        """
        found = await self._log.decisions(wanted)
        # One look for all of them, not one for each: passes of an object read much the same. And anew each time: the
        # log grows, and what was read of it says nothing about what came later.
        named = await self._log.chains(where for one in found for where in objects_of(one.record))
        searched = {scoped_part(part, one.record.service) for one in found for part in searched_parts(one.record)}
        present = await self._log.present(searched)
        for stretch in await stretches(self._log, found):
            reading = Reading(self._log, stretch, named, present)
            for stored in stretch:
                yield await self._replay(reading, stored)

    async def _replay(self, reading: Reading, stored: StoredDecision) -> Replayed:
        try:
            reconciler = await self._reconciler(stored.record)
        except _MissingError as missing:
            return Replayed(stored, Verdict.UNKNOWN, missing=(str(missing),))
        try:
            return await self._until_told(reconciler, reading, stored)
        except UntoldError as untold:
            return Replayed(stored, Verdict.UNKNOWN, missing=(str(untold),))

    async def _until_told(self, reconciler: Reconciler[Any], reading: Reading, stored: StoredDecision) -> Replayed:
        while True:
            try:
                return _again(reconciler, stored, reading.past)
            except NotLoadedError as lacking:
                await reading.read_on(scoped_part(lacking.part, stored.record.service), lacking.keys)

    async def _reconciler(self, record: DecisionRecord) -> Reconciler[Any]:
        definition = self._definitions.get((record.service, record.settings))
        if definition is None:
            definition = await self._definition(record)
            self._definitions[record.service, record.settings] = definition
        found = next((one for one in definition.reconcilers if one.controller == record.controller), None)
        if found is None:
            raise _MissingError(f"a controller {record.controller!r} in the {record.service} of today")
        return found

    async def _definition(self, record: DecisionRecord) -> ServiceDefinition:
        code = self._services.get(record.service)
        if code is None:
            raise _MissingError(f"a service {record.service!r} today")
        if not record.settings:
            raise _MissingError("the settings: an older release did not record them")
        try:
            values = await self._log.settings(record.service, record.settings)
        except ValueError as error:
            raise _MissingError(f"the settings {record.settings} of {record.service} are no JSON: {error}") from error
        if values is None:
            raise _MissingError(f"the settings {record.settings} of {record.service} are not kept")
        try:
            return code.definition(recorded(code.settings, values))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(step) for step in first["loc"])
            raise _MissingError(f"the settings are not valid today: {where}: {first['msg']}") from error


def _again(reconciler: Reconciler[Any], stored: StoredDecision, past: Past) -> Replayed:
    """Take one decision again. Pure.

    Raises:
        NotLoadedError: the history has to be asked first.
        UntoldError: the history cannot be asked.
    """
    view = ReplayView(stored.record, past)
    plan = _compared(reconciler, view, stored.record)
    lines = (*plan, *(line for told in view.raised for line in told.splitlines()))
    view.verify()
    # With a hole, equal plans prove as little as different ones. A doubt speaks against equal ones alone.
    (view.otherwise if lines else view.holes).extend(view.doubts)
    verdict = Verdict.UNKNOWN if view.holes else Verdict.DIFFERENT if lines else Verdict.SAME
    return Replayed(stored, verdict, lines, tuple(view.holes), tuple(view.beyond), tuple(view.otherwise))


def _compared(reconciler: Reconciler[Any], view: ReplayView, record: DecisionRecord) -> tuple[str, ...]:
    raised_then = record.outcome if record.outcome.startswith(BUG) else ""
    try:
        found = view.get(reconciler.part, record.namespace, record.name)
        if found.value is None:
            why = "it was not there" if found.error is None else found.error.message
            return (f"today's code cannot read the object: {why}",)
        plan = plan_to_json(decide(Decision(reconciler, found.value, view, record.at)))
    except Exception as bug:
        # Today's code: the decision, what it asks of its models, indexes and summaries. What reading the log raises is
        # no `Exception` any more when it gets here.
        if raised_then == f"{BUG}{type(bug).__name__}: {bug}":
            return ()
        told = traceback.format_exception(bug)
        return (f"then {raised_then or record.outcome}, now an exception:", *"".join(told).splitlines())
    if raised_then:
        return (f"then {raised_then}, now a plan",)
    return differences(record.plan, loads(canonical(abridged(plan, record.abridged))))
