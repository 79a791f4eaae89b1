"""Carries out a plan: patches, deletes, owned children, other children, status (FW-007…FW-013, FW-200…FW-213).

What is in order stays untouched: a plan that changes nothing sends nothing (FW-013). A client that is guarded by
the Lease ends a plan in the middle (FW-407). Every answer goes into the cache at once, so that the next pass sees what
this one did.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from controller_runtime import annotation_keys
from controller_runtime.errors import ClassifiedError
from controller_runtime.json import JsonObject
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.errors import ApiError, KubeError
from controller_runtime.kube.guard import NotLeaderError
from controller_runtime.log.wire.part import Key
from controller_runtime.names import PREFIX
from controller_runtime.reconcile.access import Writes, require_declared
from controller_runtime.reconcile.cache_access import Admission, CacheAccess
from controller_runtime.reconcile.child import (
    Target,
    children_in_order,
    foreign_owner,
    needs_apply,
    refers_to,
    to_create,
    to_update,
    with_owner,
)
from controller_runtime.reconcile.conditions import soonest
from controller_runtime.reconcile.events import EventWriter
from controller_runtime.reconcile.fights import (
    EXISTENCE,
    ChildKey,
    Fights,
    message_of,
    other_manager,
    wanted_fields,
    with_contests,
    yielding,
)
from controller_runtime.reconcile.plan import (
    Child,
    Delete,
    Drop,
    Event,
    Execution,
    Patch,
    Plan,
    Verb,
    Write,
    WriteMode,
    WriteResult,
)
from controller_runtime.reconcile.reconciler import Reconciler
from controller_runtime.reconcile.status_writer import Due, StatusWriter, classify, is_left, is_quiet, take_over

STALE_RETRY_SECONDS: Final = 2.0
"""When a delete that was refused on a stale view is tried again."""


class _StopError(Exception):
    """Nothing more of this plan may be carried out."""

    def __init__(self, drop: Drop, requeue_after: float | None = None) -> None:
        super().__init__(drop.value)
        self.drop = drop
        self.requeue_after = requeue_after


@dataclass(slots=True)
class _Run:
    """What one execution has come to so far."""

    target: Target
    writes: list[Write] = field(default_factory=list)
    failure: ClassifiedError | None = None
    failed_children: list[Child] = field(default_factory=list)

    def note_failure(self, error: ClassifiedError) -> None:
        """Keep the first error; all of them are in the writes."""
        self.failure = self.failure or error


class Executor:
    """Carries out the plans of one controller.

    Args:
        kube: raises `NotLeaderError` where this process may not write.
        declared: all that the service says it writes; `None` = whatever a plan says.
        clock: in seconds, for the waits of contested fields and of refused statuses.
    """

    def __init__(
        self,
        kube: KubeClient,
        reconciler: Reconciler[Any],
        *,
        field_manager: str,
        cache: CacheAccess,
        admission: Admission,
        events: EventWriter,
        declared: Sequence[Writes] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._manager = field_manager
        self._declared = declared
        self._cache = cache
        self._admission = admission
        self._events = events
        self._status = StatusWriter(kube, field_manager, reconciler.status, cache, clock)
        self._contested = reconciler.status.contested
        self._fights = Fights()
        self._clock = clock
        self._source = reconciler.event_source or f"{PREFIX}-{reconciler.controller}-controller"

    async def execute(self, target: Target, plan: Plan, *, stale: bool = False) -> Execution:
        """Carry out a whole plan. The status follows only when nothing failed: a failure changes it (FW-010).

        Args:
            stale: whether anything that the pass read was not fresh; then nothing is deleted (FW-019).

        Raises:
            UndeclaredWriteError: the plan would write what the service does not declare; nothing is carried out.
        """
        if self._declared is not None:
            require_declared(plan, self._declared)
        run = _Run(target)
        self._fights.keep(target.uid, [_child_key(child) for child in plan.children])
        try:
            await self._patch(run, plan.patches)
            await self._delete(run, plan.deletes, stale=stale)
            await self._apply(run, plan.children)
        except _StopError as stop:
            return await self._stopped(run, plan, stop)
        if run.failure is not None:
            return Execution(tuple(run.writes), run.failure)
        return await self._finish(run, plan)

    async def report(self, target: Target, plan: Plan) -> Execution:
        """Carry out the status and the events of a plan, and nothing else (FW-010)."""
        return await self._finish(_Run(target), plan)

    def forget(self, uid: str) -> None:
        """Drop what is remembered about an object that is gone."""
        self._status.forget(uid)
        self._fights.forget(uid)
        self._events.forget(uid)

    async def _stopped(self, run: _Run, plan: Plan, stop: _StopError) -> Execution:
        if stop.drop is Drop.STALE:
            # What the pass found out is still worth telling, not what it would have done.
            found_out = replace(plan, events=tuple(event for event in plan.events if not event.of_deletes))
            done = await self._finish(run, found_out)
            return Execution(done.writes, None, done.status_failure, stop.drop, stop.requeue_after)
        return Execution(tuple(run.writes), drop=stop.drop, requeue_after=stop.requeue_after)

    async def _finish(self, run: _Run, plan: Plan) -> Execution:
        try:
            failure = await self._report(run, plan)
        except NotLeaderError:
            return Execution(tuple(run.writes), drop=Drop.NOT_LEADER)
        # The version that won need not bring a pass: a service ignores what others write into a status they share.
        lost = any(write.verb is Verb.STATUS and write.result is WriteResult.CONFLICT for write in run.writes)
        uid = run.target.uid
        return Execution(
            tuple(run.writes),
            status_failure=failure,
            drop=Drop.CONFLICT if lost else None,
            requeue_after=soonest((self._status.held_for(uid), self._fights.due(uid, self._clock()))),
        )

    async def _report(self, run: _Run, plan: Plan) -> ClassifiedError | None:
        """Status and events; returns the failure of the status write."""
        status, contested = self._with_contests(run.target, plan.status)
        due = self._status.due(run.target, status)
        outcome = None
        if due is Due.WRITE and status is not None:
            outcome = await self._status.write(run.target, status)
            run.writes.append(outcome.write)
        stored = due is Due.SETTLED or (outcome is not None and outcome.stored)
        # A transition that was not stored will be seen, and reported, again.
        reported = plan.events if contested is None else (*plan.events, contested)
        events = [event for event in reported if stored or event.standing or not event.condition]
        events += [outcome.event] if outcome is not None and outcome.event is not None else []
        if events:
            await self._events.emit(run.target, self._source, events)
        return None if outcome is None else outcome.failure

    def _with_contests(self, target: Target, status: JsonObject | None) -> tuple[JsonObject | None, Event | None]:
        """The status with what is fought over; what it is, is no part of the decision, so a replay agrees."""
        contests = self._fights.contests(target.uid, self._clock())
        if not contests:
            return status, None
        kind, place = target.part.kind, f" -n {target.namespace}" if target.namespace else ""
        pause = f"kubectl annotate{place} {kind.resource} {target.name} {annotation_keys.PAUSED}=true"
        return with_contests(
            status,
            contests,
            type_=self._contested,
            stored=(target.raw.get("status") or {}).get("conditions") or (),
            generation=target.generation,
            message=message_of(contests, self._manager, pause),
            now=datetime.now(UTC),
        )

    # Patches and deletes

    async def _patch(self, run: _Run, patches: Iterable[Patch]) -> None:
        for patch in patches:
            await self._patch_one(run, patch)

    async def _patch_one(self, run: _Run, patch: Patch) -> None:
        kind = patch.part.kind
        try:
            answer = await self._kube.merge_patch(
                kind,
                patch.name,
                patch.namespace or None,
                patch.body,
                resource_version=patch.resource_version,
                field_manager=self._manager,
            )
        except KubeError as error:
            if isinstance(error, ApiError) and (error.is_conflict or error.is_not_found):
                run.writes.append(_write(Verb.PATCH, patch, WriteResult.CONFLICT, error=str(error)))
                raise _StopError(Drop.CONFLICT) from error
            self._failed(run, Verb.PATCH, patch, error)
        else:
            self._note_done(run, Verb.PATCH, patch, answer)

    async def _delete(self, run: _Run, deletes: Iterable[Delete], *, stale: bool) -> None:
        """Delete all, also after a failure (FW-184)."""
        wanted = tuple(deletes)
        if wanted and stale:
            raise _StopError(Drop.STALE, STALE_RETRY_SECONDS)
        for delete in wanted:
            await self._delete_one(run, delete)

    async def _delete_one(self, run: _Run, delete: Delete) -> None:
        try:
            left = await self._kube.delete(delete.part.kind, delete.name, delete.namespace or None, uid=delete.uid)
        except KubeError as error:
            if is_quiet(error, Verb.DELETE):
                run.writes.append(_write(Verb.DELETE, delete, WriteResult.GONE))
            else:
                self._failed(run, Verb.DELETE, delete, error)
        else:
            self._cache.absorb(delete.part, left or _identity(delete), gone=left is None)
            self._fights.deleted(run.target.uid, _child_key(delete))
            run.writes.append(_write(Verb.DELETE, delete, WriteResult.DONE))

    # Children

    async def _apply(self, run: _Run, children: Iterable[Child]) -> None:
        """Owned children, then the others; a failure in one group skips the next (FW-007, FW-008)."""
        wanted = tuple(children)
        for owned in (True, False):
            if run.failure is not None:
                return
            for child in children_in_order(child for child in wanted if child.owned is owned):
                if not any(refers_to(child, failed) for failed in run.failed_children):
                    await self._apply_one(run, child)

    async def _apply_one(self, run: _Run, child: Child) -> None:
        live = self._cache.live(child.part, Key(child.namespace, child.name))
        verb = Verb.APPLY if child.mode is WriteMode.APPLY else Verb.CREATE
        body = with_owner(run.target, child)
        try:
            if live is None and (child.mode is WriteMode.CREATE or not child.part.label_selector):
                await self._create_child(run, child, body)
                return
            if live is None:
                # A foreign object without the part's label is invisible in the cache: look before applying (FW-207).
                live = await self._read(child)
            await self._bring_up_to_date(run, child, body, live)
        except KubeError as error:
            self._child_failed(run, child, verb, error)

    async def _create_child(self, run: _Run, child: Child, body: JsonObject) -> None:
        if child.mode is WriteMode.APPLY:
            verdict = self._fights.judge(run.target.uid, _child_key(child), {EXISTENCE: b""}, self._clock())
            if verdict.held:
                run.writes.append(_write(Verb.APPLY, child, WriteResult.HELD, error="deleted by another client"))
                return
            desired = to_create(body, run.target.traceparent, hashed=True)
            self._note_done(run, Verb.APPLY, child, await self._kube.apply(child.part.kind, desired, self._manager))
            self._fights.applied(run.target.uid, _child_key(child), verdict.fields, self._clock())
            return
        desired = to_create(body, run.target.traceparent, hashed=False)
        async with self._admission.place(child.quotas) as full:
            if full is None:
                await self._create(run, child, desired)
            else:
                why = f"limit reached: {full} exist already"
                run.writes.append(_write(Verb.CREATE, child, WriteResult.HELD, error=why))

    async def _create(self, run: _Run, child: Child, desired: JsonObject) -> None:
        try:
            answer = await self._kube.create(child.part.kind, desired, self._manager)
        except ApiError as error:
            if not error.is_already_exists:
                raise
            await self._resolve_name_conflict(run, child)
        else:
            self._note_done(run, Verb.CREATE, child, answer)

    async def _bring_up_to_date(self, run: _Run, child: Child, body: JsonObject, live: JsonObject | None) -> None:
        foreign = None if live is None else foreign_owner(run.target, child, live)
        if foreign is not None:
            run.note_failure(foreign)
            run.failed_children.append(child)
            return
        if live is not None and child.mode is WriteMode.APPLY and is_left(child.part, live):
            live = await self._take_over(run, child, live)
        if child.mode is not WriteMode.APPLY:
            return
        if live is None:
            await self._create_child(run, child, body)
        else:
            await self._apply_over(run, child, body, live)

    async def _apply_over(self, run: _Run, child: Child, body: JsonObject, live: JsonObject) -> None:
        """Apply what differs, but for fields whose turn has not come in a fight over them (FW-812, FW-813)."""
        owner, key = run.target.uid, _child_key(child)
        wanted = wanted_fields(body, live) if needs_apply(body, live) else {}
        verdict = self._fights.judge(owner, key, wanted, self._clock())
        if verdict.begun:
            found = await self._read(child) or live
            self._fights.note_managers(
                owner, key, {one: other_manager(found, one, self._manager) for one in verdict.begun}
            )
        if verdict.fields:
            desired = yielding(to_update(body, live), live, verdict.held)
            self._note_done(run, Verb.APPLY, child, await self._kube.apply(child.part.kind, desired, self._manager))
            self._fights.applied(owner, key, verdict.fields, self._clock())
        elif verdict.held:
            run.writes.append(_write(Verb.APPLY, child, WriteResult.HELD, error="fields contested"))

    async def _take_over(self, run: _Run, child: Child, live: JsonObject) -> JsonObject:
        try:
            answer = await take_over(self._kube, child.part, live, self._manager)
        except ApiError as error:
            if not (error.is_conflict or error.is_not_found):
                raise
            run.writes.append(_write(Verb.PATCH, child, WriteResult.CONFLICT, error=str(error)))
            raise _StopError(Drop.CONFLICT) from error
        self._note_done(run, Verb.PATCH, child, answer)
        return answer

    async def _resolve_name_conflict(self, run: _Run, child: Child) -> None:
        """The name was taken: by our own child that the cache does not know yet, or by a foreign object (FW-207)."""
        live = await self._read(child)
        if live is None:
            # Deleted in between; the next pass creates it.
            raise _StopError(Drop.CONFLICT)
        foreign = foreign_owner(run.target, child, live)
        if foreign is None:
            self._cache.absorb(child.part, live)
            run.writes.append(_write(Verb.CREATE, child, WriteResult.EXISTS, version=_version(live)))
            return
        run.writes.append(_write(Verb.CREATE, child, WriteResult.FAILED, error=str(foreign)))
        run.note_failure(foreign)
        run.failed_children.append(child)

    async def _read(self, child: Child) -> JsonObject | None:
        try:
            return await self._kube.get(child.part.kind, child.name, child.namespace or None)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise

    def _child_failed(self, run: _Run, child: Child, verb: Verb, error: KubeError) -> None:
        if is_quiet(error, verb):
            run.writes.append(_write(verb, child, WriteResult.FAILED, error=str(error)))
            raise _StopError(Drop.TERMINATING) from error
        run.failed_children.append(child)
        self._failed(run, verb, child, error)

    # Results

    def _note_done(self, run: _Run, verb: Verb, item: Child | Patch, answer: JsonObject) -> None:
        self._cache.absorb(item.part, answer)
        run.writes.append(_write(verb, item, WriteResult.DONE, version=_version(answer)))

    def _failed(self, run: _Run, verb: Verb, item: Child | Delete | Patch, error: KubeError) -> None:
        if isinstance(error, NotLeaderError):
            raise _StopError(Drop.NOT_LEADER) from error
        classified = classify(error, verb=verb)
        what = f"{verb.value} of {item.part.kind.kind} {Key(item.namespace, item.name)} failed"
        run.note_failure(replace(classified, message=f"{what}: {classified.message}"))
        run.writes.append(_write(verb, item, WriteResult.FAILED, error=str(error)))


def _identity(delete: Delete) -> JsonObject:
    return {"metadata": {"namespace": delete.namespace, "name": delete.name, "uid": delete.uid}}


def _child_key(item: Child | Delete) -> ChildKey:
    return item.part.kind.kind, Key(item.namespace, item.name)


def _version(answer: JsonObject) -> str:
    return str(answer["metadata"].get("resourceVersion") or "")


def _write(
    verb: Verb, item: Child | Delete | Patch, result: WriteResult, *, version: str = "", error: str = ""
) -> Write:
    return Write(verb, item.part.kind.kind, item.namespace, item.name, result, version, error)
