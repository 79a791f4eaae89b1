"""One service at work on the embedded control plane, pass by pass and on virtual time.

The service's own workers and executors make the passes and write with its Kubernetes client: server-side apply, field
ownership, defaults, finalizers, UIDs and garbage collection are the API server's. Left out are the bus, as the cache
takes in what the store tells, and what the client's transport adds to a request: connection, retries, rate limit and
observer, which have tests of their own. A test says whose pass it is, and plays everybody else.

    live = Live(SERVICE, aim_service("chat"), node())
    plan = live.run(SERVICES, "chat")
    live.put(MODELS, model("qwen"))
    live.later(60)
"""

import asyncio
import atexit
import functools
import math
from collections import Counter, defaultdict
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlencode

from starlette.types import Message, Scope
from support.builders import NAMESPACE, make
from support.controlplane import definitions
from support.deciding import WATCHED
from support.virtual_clock import VirtualClock

from controller_runtime import (
    FACT,
    FACTS,
    GRACE_PERIOD,
    Change,
    ClassifiedError,
    Effect,
    JsonObject,
    Key,
    KubeClient,
    Part,
    Plan,
    ServiceDefinition,
    StatusValue,
    kinds,
    timestamp,
)
from controller_runtime.kube.config import Connection, NoCredentials
from controller_runtime.kube.errors import api_error
from controller_runtime.kube.guard import seconds_to_write
from controller_runtime.kube.transport import Request, Transport
from controller_runtime.log.history.facts import FactOwner, fact_key
from controller_runtime.log.wire.part import published_form
from controller_runtime.log.wire.version import Entry, Version
from controller_runtime.reconcile.cache_access import Admission, CacheAccess
from controller_runtime.reconcile.decide import Decision, Interceptor, Proceed
from controller_runtime.reconcile.enqueue import ChangeRouter
from controller_runtime.reconcile.events import EventWriter
from controller_runtime.reconcile.executor import Executor
from controller_runtime.reconcile.plan import Drop, Execution
from controller_runtime.reconcile.queue import WorkQueue
from controller_runtime.reconcile.worker import Worker
from controller_runtime.testing import NOW, BuiltCache, cache_of
from embedded_apiserver import ControlPlane
from embedded_apiserver.reading import Matcher, matcher
from embedded_apiserver.resources import ResourceType
from embedded_apiserver.store import Event, EventType, Watcher

T = TypeVar("T")

_NOWHERE: Final = Connection("http://in-process", NoCredentials())
_MOST_PASSES: Final = 10
_WRITES: Final = frozenset({"create", "update", "patch", "apply", "delete"})
_NAMES: Final = frozenset({"namespace", "name"})


class _InProcess(Transport):
    """Hands requests to the control plane by a call."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(_NOWHERE, "live")
        self._plane = plane

    async def call(self, request: Request) -> bytes:
        if request.guard is not None:
            seconds_to_write(request.guard)
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": request.body or b""}

        async def send(message: Message) -> None:
            sent.append(message)

        scope: Scope = {
            "type": "http",
            "method": request.method,
            "path": unquote(request.path),
            "query_string": urlencode(request.parameters).encode(),
            "headers": [(b"content-type", request.content_type.encode()), (b"user-agent", b"live")],
        }
        await self._plane(scope, receive, send)
        status, body = sent[0]["status"], b"".join(one.get("body", b"") for one in sent)
        if status >= 400:
            raise api_error(str(request), status, body, None)
        return body


class _Server:
    """The control plane of this process, which listens nowhere; each `Live` finds it empty.

    Its event loop stands still between the calls, as nothing but a call of a test makes anything happen.
    """

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.plane = ControlPlane(clock=lambda: NOW.timestamp() + self.clock.now)
        self.plane.install_crds(definitions())
        self._loop = asyncio.new_event_loop()
        self._watchers: list[tuple[str, Watcher]] = []
        self.kube = KubeClient(_NOWHERE, service="live", transport=_InProcess(self.plane))
        atexit.register(self._loop.close)

    def until_done(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    def begin(self, clock: VirtualClock, storages: Iterable[str]) -> None:
        """Forget the test before, and watch these storages."""
        for storage, watcher in self._watchers:
            self.plane.store.collection(storage).watchers.discard(watcher)
        self.clock = clock
        self.plane.wipe()
        self.plane.requests.reset()
        self._watchers = [(storage, Watcher("")) for storage in storages]
        for storage, watcher in self._watchers:
            self.plane.store.collection(storage).watchers.add(watcher)

    def events(self) -> list[tuple[str, Event]]:
        """What has changed since the last call, in order, collected garbage included."""
        self.plane.collect()
        taken = [(storage, event) for storage, watcher in self._watchers for event in watcher.take()]
        return sorted(taken, key=lambda one: one[1].current.revision)


_server: Final = functools.cache(_Server)


@dataclass(slots=True)
class _Passes(Interceptor):
    """What the workers decided, and what came of it."""

    made: list[tuple[Plan, Execution]] = field(default_factory=list)
    bug: Exception | None = None

    def decide(self, decision: Decision[Any], proceed: Proceed) -> Plan:
        try:
            return proceed(decision)
        except Exception as bug:
            self.bug = bug
            raise

    def carried_out(self, _decision: Decision[Any], plan: Plan, execution: Execution) -> None:
        self.made.append((plan, execution))

    def take(self) -> list[tuple[Plan, Execution]]:
        made, self.made = self.made, []
        if self.bug is not None:
            raise self.bug
        return made


class Live(BuiltCache):
    """A service and its cluster; also the cache that the service sees.

    Attributes:
        effects: what passes asked for, the latest of each; a test answers them.
    """

    def __init__(self, definition: ServiceDefinition, *objects: JsonObject, namespace: str = NAMESPACE) -> None:
        empty = cache_of(definition.consumes, indexes=definition.indexes)
        super().__init__(empty.cache, empty.sequences)
        self.definition = definition
        self.namespace = namespace
        self.effects: dict[tuple[str, str], Effect] = {}
        self.timers = VirtualClock()
        self._writes_left = math.inf
        self._parts = _storages(_server().plane, definition.consumes)
        _server().begin(self.timers, self._parts)
        self._passes = _Passes()
        self._begin()
        self.add(*objects)

    def _begin(self) -> None:
        """A term of leadership, which knows nothing of the one before it."""
        self._workers = self._made_workers()
        self._router = ChangeRouter(
            self.cache, self.definition.predicates, [one.enqueuer for one in self._workers.values()]
        )

    @property
    def _server(self) -> _Server:
        server = _server()
        assert server.clock is self.timers, "a later Live has taken over the control plane: finish with this one first"
        return server

    # Time and passes

    @property
    def now(self) -> datetime:
        """The clock of every pass and of the API server."""
        return NOW + timedelta(seconds=self.timers.now)

    def later(self, seconds: float) -> None:
        """Let time pass."""
        self.timers.advance(seconds)

    def until(self, moment: datetime) -> None:
        """Let time pass up to a moment."""
        self.later((moment - self.now).total_seconds())

    def run(self, part: Part[Any], name: str, namespace: str = "") -> Plan:
        """One pass; the plan that was carried out, whole."""
        ((plan, execution),) = self._process(part, name, namespace)
        assert (execution.failure, execution.status_failure, execution.drop) == (None, None, None), execution
        return plan

    def failure(self, part: Part[Any], name: str, namespace: str = "") -> ClassifiedError:
        """One pass whose plan cannot be carried out, and the pass that reports it; why."""
        (_, refused), _ = self._process(part, name, namespace)
        assert refused.failure is not None
        return refused.failure

    def settle(self, part: Part[Any], name: str, namespace: str = "") -> Plan:
        """Passes until one writes nothing."""
        for _ in range(_MOST_PASSES):
            before = self._server.plane.store.revision
            plan = self.run(part, name, namespace)
            if self._server.plane.store.revision == before:
                return plan
        raise AssertionError(f"{part} {name} does not come to rest")

    def crash(self, part: Part[Any], name: str, namespace: str = "", *, writes: int) -> bool:
        """One pass of a process that ends after so many writes, and the start of another; whether it came so far."""
        self._writes_left = writes
        made = self._process(part, name, namespace)
        self._writes_left = math.inf
        self._begin()
        return any(execution.drop is Drop.NOT_LEADER for _, execution in made)

    def _process(self, part: Part[Any], name: str, namespace: str) -> list[tuple[Plan, Execution]]:
        key = self._key(part, name, namespace)
        self._server.until_done(self._workers[part.name].process(key))
        if not self._passes.made and not all(map(self.cache.is_fresh, self.definition.consumes)):
            # A stale kind has postponed it (FW-861).
            self.later(GRACE_PERIOD.total_seconds())
            self._server.until_done(self._workers[part.name].process(key))
        self._follow()
        return self._passes.take()

    # Reading

    def find(self, part: Part[Any], name: str, namespace: str = "") -> JsonObject | None:
        """An object as the API server has it."""
        return self.stored.get((part, self._key(part, name, namespace)))

    def raw(self, part: Part[Any], name: str, namespace: str = "") -> JsonObject:
        """An object that is there."""
        found = self.find(part, name, namespace)
        assert found is not None, f"no {part} {name}"
        return found

    def all(self, part: Part[Any]) -> list[JsonObject]:
        """The objects of a part, in the order of their names."""
        return [self.stored[part, entry.key] for entry in sorted(self.cache.all(part), key=lambda one: one.key)]

    def uid(self, part: Part[Any], name: str, namespace: str = "") -> str:
        """UID of an object that is there."""
        return str(self.raw(part, name, namespace)["metadata"]["uid"])

    def status(self, part: Part[Any], name: str, namespace: str = "") -> JsonObject:
        """The stored status; empty without one."""
        return dict(self.raw(part, name, namespace).get("status") or {})

    def value(self, part: Part[Any], name: str, namespace: str = "") -> StatusValue:
        """The stored status value."""
        return StatusValue(self.status(part, name, namespace)["status"])

    def condition(self, part: Part[Any], name: str, type_: str, namespace: str = "") -> tuple[str, str] | None:
        """Status and reason of a stored condition."""
        conditions = self.status(part, name, namespace).get("conditions") or []
        return next(((one["status"], one["reason"]) for one in conditions if one["type"] == type_), None)

    def only(self, part: Part[Any]) -> JsonObject:
        """The one object of a part."""
        (found,) = self.all(part)
        return found

    def names(self, part: Part[Any]) -> list[str]:
        """Names of the objects of a part."""
        return [one["metadata"]["name"] for one in self.all(part)]

    def written(self) -> Counter[str]:
        """Writes of the service that changed something, by resource; a status is one of its own."""
        counted = Counter[str]()
        for one in self._server.plane.requests.report()["requests"]:
            if one["verb"] in _WRITES and one["status"] < HTTPStatus.BAD_REQUEST:
                counted["/".join(filter(None, (one["resource"], one["subresource"])))] += one["count"]
        return counted

    def requests(self) -> set[tuple[str, str]]:
        """Verb and resource of what was asked of the API server so far, in passes and by the test."""
        counted = self._server.plane.requests.report()["requests"]
        return {(one["verb"], "/".join(filter(None, (one["resource"], one["subresource"])))) for one in counted}

    # The rest of the cache

    def add(self, *objects: JsonObject) -> None:
        """Objects of kinds that the service consumes, or not: each comes with its status, and with its namespace."""
        for obj in objects:
            self._store(obj, self._status_manager(obj))
        self._follow()

    def add_unseen(self, *objects: JsonObject) -> None:
        """Objects of which the cache hears only after the next pass."""
        for obj in objects:
            self._store(obj, "")

    def put(self, part: Part[Any], *objects: JsonObject) -> list[Change[Any]]:
        """Add objects, or replace what is there by them; one that names another UID comes in the place of the former.

        Facts are put into the cache alone, as the API server knows none.
        """
        if part is FACTS:
            return self._reported(super().put(part, *objects))
        for obj in objects:
            self._store(self._in_place(part, obj), self._status_manager(obj))
        return self._follow()

    def change(self, part: Part[Any], name: str, namespace: str = "", **members: Any) -> None:
        """A new version of an object, by somebody else.

        Args:
            members: replace those of the object; of metadata and status, only what they name (`None` takes it away).
        """
        old = self.stored[part, self._key(part, name, namespace)]
        merged = {**old, **members}
        for of_many in {"metadata", "status"} & members.keys():
            both = {**(old.get(of_many) or {}), **members[of_many]}
            merged[of_many] = {member: value for member, value in both.items() if value is not None}
        # The server counts.
        merged["metadata"] = {member: value for member, value in merged["metadata"].items() if member != "generation"}
        self._store(merged, "")
        self._follow()

    def apply(self, part: Part[Any], name: str, members: JsonObject, manager: str) -> None:
        """Somebody else takes fields of an object by server-side apply."""
        key = self._key(part, name, "")
        where = {"name": name, **({"namespace": key.namespace} if key.namespace else {})}
        metadata = {**(members.get("metadata") or {}), **where}
        body = {"apiVersion": part.kind.api_version, "kind": part.kind.kind, **members, "metadata": metadata}
        self._server.until_done(self._server.kube.apply(part.kind, body, manager))
        self._follow()

    def apply_status(self, part: Part[Any], name: str, status: JsonObject, manager: str) -> None:
        """Another service writes its own share of a status."""
        key = self._key(part, name, "")
        where = {"name": name, **({"namespace": key.namespace} if key.namespace else {})}
        body = {"apiVersion": part.kind.api_version, "kind": part.kind.kind, "metadata": where, "status": status}
        self._server.until_done(self._server.kube.apply(part.kind, body, manager, subresource="status"))
        self._follow()

    def remove(self, part: Part[Any], name: str, namespace: str = "") -> None:
        """Delete an object, and with it what it owns; a finalizer holds it back, as ever."""
        key = self._key(part, name, namespace)
        uid = self.stored[part, key]["metadata"]["uid"]
        if part is FACTS:
            self._reported(self.cache.absorb_deleted(part, key, uid, self.timers.now))
            return
        self._server.until_done(self._server.kube.delete(part.kind, name, key.namespace or None, uid=uid))
        self._follow()

    def answer(self, effect: Effect, outcome: JsonObject | None = None, failure: ClassifiedError | None = None) -> None:
        """Let an effect end now."""
        where = fact_key(self.definition.name, effect.kind, effect.key)
        before = self.cache.get(FACTS, where)
        attempts = 0 if before is None else int(before.raw.get("attempts", 0))
        problem = (
            None
            if failure is None
            else {
                "category": failure.category.value,
                "reason": failure.reason,
                "message": failure.message,
            }
        )
        fact: JsonObject = {
            "apiVersion": FACT.api_version,
            "kind": FACT.kind,
            "metadata": {"namespace": where.namespace, "name": where.name, "uid": where.name},
            "effect": effect.kind,
            "about": effect.key,
            "owner": {"part": "p", "name": "n", "uid": "u"},
            "observedAt": timestamp(self.now),
            "attempts": attempts + 1 if failure else 0,
            "outcome": outcome,
            "failure": problem,
        }
        self.put(FACTS, fact)

    def _key(self, part: Part[Any], name: str, namespace: str) -> Key:
        return Key((namespace or self.namespace) if part.kind.namespaced else "", name)

    def _status_manager(self, obj: JsonObject) -> str:
        """The service itself, where it has written the status that a test gives."""
        own = {(one.part.kind.api_version, one.part.kind.kind) for one in self.definition.reconcilers}
        return self.definition.field_manager if (obj["apiVersion"], obj["kind"]) in own else ""

    def _store(self, obj: JsonObject, applied_by: str) -> None:
        plane, namespace = self._server.plane, obj["metadata"].get("namespace")
        if namespace and plane.store.get("namespaces", ("", namespace)) is None:
            plane.restore(make(kinds.NAMESPACE, namespace))
        plane.restore(obj, applied_by)

    def _in_place(self, part: Part[Any], obj: JsonObject) -> JsonObject:
        """The object without what `make` gives every new one, if it is there: that would set it back."""
        metadata = obj["metadata"]
        key = Key(metadata.get("namespace") or "", metadata["name"])
        if self.cache.get(part, key) is None:
            return obj
        usual = make(part.kind, key.name, namespace=key.namespace)["metadata"]
        own = {name: value for name, value in metadata.items() if name in _NAMES or usual.get(name) != value}
        return {**obj, "metadata": own}

    # From the store into the cache

    def _follow(self) -> list[Change[Any]]:
        changes: list[Change[Any]] = []
        for storage, event in self._server.events():
            for part, resource, selected in self._parts[storage]:
                changes += self._take_in(part, resource, selected, event)
        return self._reported(changes)

    def _take_in(
        self, part: Part[Any], resource: ResourceType, selected: Matcher | None, event: Event
    ) -> list[Change[Any]]:
        key, obj = Key(*event.current.key), event.current.copy()
        version = Version(event.current.uid, str(event.current.revision), next(self.sequences), "e1")
        if event.type is EventType.DELETED or (selected is not None and not selected(obj)):
            self.stored.pop((part, key), None)
            known = self.cache.get(part, key)
            return [] if known is None else self.cache.delete(part, key, version, self.timers.now)
        if resource.from_storage is not None:
            obj = resource.from_storage(obj)
        self.stored[part, key] = obj
        return self.cache.put(Entry.of(part, key, published_form(part, obj), version), self.timers.now)

    def _reported(self, changes: Iterable[Change[Any]]) -> list[Change[Any]]:
        reported = list(changes)
        for change in reported:
            self._router.route(change)
        return reported

    # What the framework makes at the beginning of a term of leadership

    def _made_workers(self) -> dict[str, Worker[Any]]:
        kube, manager = self._server.kube.guarded(self._may_write), self.definition.field_manager
        access = CacheAccess(self.cache, self._reported, self.timers.time)
        admission = Admission(access, kube)
        events = EventWriter(kube, manager, clock=self.timers.time, now=lambda: self.now)
        return {
            reconciler.part.name: Worker(
                reconciler,
                self.cache,
                WorkQueue(self.timers),
                Executor(
                    kube,
                    reconciler,
                    field_manager=manager,
                    cache=access,
                    admission=admission,
                    events=events,
                    declared=self.definition.declared_writes,
                    clock=self.timers.time,
                ),
                effects=self,
                interceptors=(WATCHED, self._passes),
                now=lambda: self.now,
            )
            for reconciler in self.definition.reconcilers
        }

    def _may_write(self) -> float:
        self._writes_left -= 1
        return math.inf if self._writes_left >= 0 else 0.0

    def observed(self, effect: Effect) -> datetime | None:
        entry = self.cache.get(FACTS, fact_key(self.definition.name, effect.kind, effect.key))
        known = None if entry is None else entry.object
        return None if known is None else known.observed_at

    def submit(self, effect: Effect, _owner: FactOwner) -> None:
        self.effects[effect.kind, effect.key] = effect

    def forget(self, _owner_uid: str) -> None:
        """Facts of what is gone stay: a test that cares takes them away."""


def _storages(
    plane: ControlPlane, parts: Iterable[Part[Any]]
) -> dict[str, list[tuple[Part[Any], ResourceType, Matcher | None]]]:
    """Which parts take objects of which storage, and which of them."""
    found: dict[str, list[tuple[Part[Any], ResourceType, Matcher | None]]] = defaultdict(list)
    for part in parts:
        resource = plane.registry.find_kind(part.kind.api_version, part.kind.kind)
        if resource is not None:
            selected = matcher(resource, part.label_selector, part.field_selector)
            found[resource.storage].append((part, resource, selected))
    return found
