"""What the existing Go operator has left: its fields become ours, then what nobody wants goes (FW-209)."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
import pytest_asyncio
from support.suite import Server, SuiteApi

from aim_domain.parts import SERVICES, TEMPLATES
from controller_runtime import (
    MERGE_PATCH,
    Cache,
    Child,
    JsonObject,
    Key,
    KubeClient,
    Plan,
    Reconciler,
    Request,
    StatusOwnership,
    Transport,
    load_connection,
)
from controller_runtime.reconcile.cache_access import Admission, CacheAccess
from controller_runtime.reconcile.child import Target
from controller_runtime.reconcile.events import EventWriter
from controller_runtime.reconcile.executor import Executor
from controller_runtime.reconcile.plan import Drop, Execution

OLD: Final = "aim-model-controller"
OURS: Final = "aim-serving"
GROUP: Final = "/apis/aim.eai.amd.com/v1alpha1/namespaces/$ns"
SERVICE: Final = f"{GROUP}/aimservices/chat"
TEMPLATE: Final = f"{GROUP}/aimservicetemplates/chat"
SINCE: Final = "2026-01-01T00:00:00Z"


class _Watched(Transport):
    """A transport that notes what passes, and lets something happen right before the next merge patch."""

    seen: list[str]
    before_patch: Callable[[], Awaitable[object]] | None = None

    async def call(self, request: Request) -> bytes:
        self.seen.append(request.method)
        if request.content_type == MERGE_PATCH and self.before_patch is not None:
            happens, self.before_patch = self.before_patch, None
            await happens()
        return await super().call(request)


@dataclass
class Ours:
    """A serving service that has just started: it knows what the API server tells it."""

    kube: KubeClient
    transport: _Watched
    namespace: str
    ownership: StatusOwnership = field(default_factory=StatusOwnership)
    writes_left: int = 1000

    def __post_init__(self) -> None:
        cache = Cache((SERVICES, TEMPLATES))
        self.access = CacheAccess(cache, lambda _: None)
        self.cache = cache
        guarded = self.kube.guarded(self._seconds_to_write)
        reconciler = Reconciler("service", SERVICES, lambda *_: Plan(), status=self.ownership)
        self.executor = Executor(
            guarded,
            reconciler,
            field_manager=OURS,
            cache=self.access,
            admission=Admission(self.access, guarded),
            events=EventWriter(guarded, OURS),
        )

    def _seconds_to_write(self) -> float:
        self.writes_left -= 1
        return 60.0 if self.writes_left >= 0 else 0.0

    async def look(self) -> None:
        """Take in what is there, as a watch would tell it."""
        for part in (SERVICES, TEMPLATES):
            for obj in (await self.kube.list(part.kind, self.namespace)).items:
                self.access.absorb(part, obj)

    async def execute(self, plan: Plan) -> Execution:
        entry = self.cache.get(SERVICES, Key(self.namespace, "chat"))
        assert entry is not None
        self.transport.seen.clear()
        return await self.executor.execute(Target(SERVICES, entry.raw), plan)


@pytest_asyncio.fixture
async def ours(server: Server, api: SuiteApi) -> AsyncIterator[Ours]:
    connection = await load_connection(str(server.kubeconfig))
    transport = _Watched(connection, "aim-serving/test")
    transport.seen = []
    async with KubeClient(connection, service="serving", transport=transport) as kube:
        yield Ours(kube, transport, api.namespace)


def service() -> JsonObject:
    return {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMService",
        "metadata": {"name": "chat"},
        "spec": {"model": {"name": "qwen"}},
    }


def template(**spec: Any) -> JsonObject:
    return {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMServiceTemplate",
        "metadata": {"name": "chat", "namespace": "$ns"},
        "spec": {"modelName": "m", **spec},
    }


def condition(kind: str, status: str = "True") -> JsonObject:
    return {"type": kind, "status": status, "reason": "R", "message": "m", "lastTransitionTime": SINCE}


def plan_of(ours: Ours, **spec: Any) -> Plan:
    body = template(**spec)
    body["metadata"]["namespace"] = ours.namespace
    return Plan(children=(Child(TEMPLATES, body),))


def managers(obj: JsonObject) -> set[tuple[str, str, str]]:
    return {(one["manager"], one["operation"], one.get("subresource", "")) for one in obj["metadata"]["managedFields"]}


async def left_by_the_old_operator(api: SuiteApi, ours: Ours) -> None:
    """A service, and a template that the old operator has applied; somebody has labelled the cache by hand."""
    await api.created(f"{GROUP}/aimservices", service())
    made = await api.apply(TEMPLATE, template(profileId="old", serviceAccountName="a"), OLD)
    assert made.status == 201, made.message
    labelled = await api.merge(TEMPLATE, {"metadata": {"labels": {"by": "hand"}}}, fieldManager="kubectl")
    assert labelled.status == 200, labelled.message
    await ours.look()


@pytest.mark.spec("FW-209", "RT-057")
async def test_a_child_of_the_old_operator_loses_what_is_no_longer_wanted(api: SuiteApi, ours: Ours) -> None:
    await left_by_the_old_operator(api, ours)
    done = await ours.execute(plan_of(ours, serviceAccountName="b"))
    assert [write.verb.value for write in done.writes] == ["patch", "apply"]
    live = (await api.get(TEMPLATE)).body
    assert live["spec"] == {"modelName": "m", "serviceAccountName": "b"}
    assert live["metadata"]["labels"] == {"by": "hand"}
    assert managers(live) == {(OURS, "Apply", ""), ("kubectl", "Update", "")}


@pytest.mark.spec("FW-209", "FW-517", "FW-013")
async def test_what_is_taken_over_costs_nothing_any_more(api: SuiteApi, ours: Ours) -> None:
    await left_by_the_old_operator(api, ours)
    await ours.execute(plan_of(ours))
    again = await ours.execute(plan_of(ours))
    assert (again.writes, ours.transport.seen) == ((), [])
    after_a_restart = Ours(ours.kube, ours.transport, ours.namespace)
    await after_a_restart.look()
    assert not (await after_a_restart.execute(plan_of(ours))).changed
    changed = await ours.execute(plan_of(ours, type="preview"))
    assert [write.verb.value for write in changed.writes] == ["apply"]
    assert ours.transport.seen == ["PATCH"]


@pytest.mark.spec("FW-209", "FW-517")
async def test_a_change_between_look_and_hand_over_is_seen_and_the_next_try_works(api: SuiteApi, ours: Ours) -> None:
    await left_by_the_old_operator(api, ours)
    ours.transport.before_patch = lambda: api.merge(TEMPLATE, {"metadata": {"labels": {"by": "two"}}})
    first = await ours.execute(plan_of(ours))
    assert (first.drop, first.failure) == (Drop.CONFLICT, None)
    assert (await api.get(TEMPLATE)).body["spec"]["profileId"] == "old"
    second = await ours.execute(plan_of(ours))
    assert [write.verb.value for write in second.writes] == ["patch", "apply"]
    live = (await api.get(TEMPLATE)).body
    assert ("profileId" in live["spec"], live["metadata"]["labels"]) == (False, {"by": "two"})


@pytest.mark.spec("FW-209", "FW-517", "FW-407")
async def test_a_kill_between_hand_over_and_apply_loses_nothing(api: SuiteApi, ours: Ours) -> None:
    """Also of an object that was in order before the old operator ran once more."""
    await left_by_the_old_operator(api, ours)
    await ours.execute(plan_of(ours))
    again = await api.apply(TEMPLATE, template(profileId="old"), OLD, force="true")
    assert again.status == 200, again.message
    await ours.look()
    ours.writes_left = 1
    killed = await ours.execute(plan_of(ours))
    assert ([write.verb.value for write in killed.writes], killed.drop) == (["patch"], Drop.NOT_LEADER)
    assert (await api.get(TEMPLATE)).body["spec"]["profileId"] == "old"
    successor = Ours(ours.kube, ours.transport, ours.namespace)
    await successor.look()
    done = await successor.execute(plan_of(ours))
    assert [write.verb.value for write in done.writes] == ["apply"]
    live = (await api.get(TEMPLATE)).body
    assert "profileId" not in live["spec"]
    assert managers(live) == {(OURS, "Apply", ""), ("kubectl", "Update", "")}


async def with_an_old_status(api: SuiteApi, ours: Ours, manager: str = "manager") -> None:
    """A service whose status the old operator has updated, as has some other controller a condition."""
    obj = await api.created(f"{GROUP}/aimservices", service())
    status = {
        "status": "Running",
        "conditions": [condition("Ready"), condition("StorageReady")],
        "routing": {"path": "/old"},
        "cache": {"retryAttempts": 1},
    }
    stored = await api.put(f"{SERVICE}/status", {**obj, "status": status}, fieldManager=manager)
    assert stored.status == 200, stored.message
    identity = {name: value for name, value in service().items() if name != "spec"}
    other = {**identity, "status": {"conditions": [condition("Elsewhere")]}}
    assert (await api.apply(f"{SERVICE}/status", other, "elsewhere")).status == 200
    await ours.look()


@pytest.mark.spec("FW-209")
@pytest.mark.parametrize("manager", ["manager", "aim-go"])
async def test_the_old_operators_status_vanishes_with_its_conditions(api: SuiteApi, ours: Ours, manager: str) -> None:
    await with_an_old_status(api, ours, manager)
    wanted = {"status": "Starting", "conditions": [condition("Ready", "False")]}
    done = await ours.execute(Plan(status=wanted))
    assert (done.status_failure, done.drop) == (None, None)
    live = (await api.get(SERVICE)).body
    assert live["status"] == {
        "status": "Starting",
        "conditions": [condition("Ready", "False"), condition("Elsewhere")],
    }
    assert {one for one in managers(live) if one[2]} == {(OURS, "Apply", "status"), ("elsewhere", "Apply", "status")}


@pytest.mark.spec("FW-209", "FW-517")
async def test_a_status_that_says_the_same_is_taken_over_as_well(api: SuiteApi, ours: Ours) -> None:
    await with_an_old_status(api, ours)
    same = {"status": "Running", "conditions": [condition("Ready"), condition("StorageReady")]}
    own = StatusOwnership(foreign_fields=frozenset({"routing"}), foreign_conditions=frozenset({"Elsewhere"}))
    ours = Ours(ours.kube, ours.transport, ours.namespace, own)
    await ours.look()
    await ours.execute(Plan(status={**same, "cache": {"retryAttempts": 1}}))
    live = (await api.get(SERVICE)).body
    # Serving has not written it, and routing, whose it is, may not patch the object: it comes back with its next pass.
    assert "routing" not in live["status"]
    await ours.execute(Plan(status={**same, "cache": {"retryAttempts": 1}}))
    assert ours.transport.seen == []


@pytest.mark.spec("FW-209", "FW-012")
async def test_a_status_is_taken_over_also_after_a_conflict_and_a_kill(api: SuiteApi, ours: Ours) -> None:
    await with_an_old_status(api, ours)
    wanted = {"status": "Starting", "conditions": [condition("Ready", "False")]}
    ours.transport.before_patch = lambda: api.merge(SERVICE, {"metadata": {"labels": {"by": "two"}}})
    assert (await ours.execute(Plan(status=wanted))).drop is Drop.CONFLICT
    ours.writes_left = 1
    assert (await ours.execute(Plan(status=wanted))).drop is Drop.NOT_LEADER
    successor = Ours(ours.kube, ours.transport, ours.namespace)
    await successor.look()
    await successor.execute(Plan(status=wanted))
    assert successor.transport.seen == ["PATCH"]
    live = (await api.get(SERVICE)).body
    assert [one["type"] for one in live["status"]["conditions"]] == ["Ready", "Elsewhere"]
    assert live["metadata"]["labels"] == {"by": "two"}


@pytest.mark.spec("FW-209", "FW-371")
async def test_who_writes_a_part_of_a_status_takes_nothing_over(api: SuiteApi, ours: Ours) -> None:
    await with_an_old_status(api, ours)
    listed = StatusOwnership(only_fields=frozenset({"routing"}), only_conditions=frozenset({"HTTPRouteReady"}))
    routing = Ours(ours.kube, ours.transport, ours.namespace, listed)
    await routing.look()
    await routing.execute(Plan(status={"routing": {"path": "/new"}}))
    assert routing.transport.seen == ["PATCH"]
    assert ("manager", "Update", "status") in managers((await api.get(SERVICE)).body)


@pytest.mark.spec("FW-209", "FW-516", "FW-190")
async def test_finalizers_of_the_old_operator_stay(api: SuiteApi, ours: Ours) -> None:
    """An apply by whoever owns them would take them away, and with them the clean-up that they hold the object for."""
    await left_by_the_old_operator(api, ours)
    held = {"metadata": {"finalizers": ["example.com/held"]}}
    assert (await api.merge(TEMPLATE, held, fieldManager="manager")).status == 200
    await ours.look()
    await ours.execute(plan_of(ours))
    live = (await api.get(TEMPLATE)).body
    assert live["metadata"]["finalizers"] == held["metadata"]["finalizers"]
    # Or nothing could be removed with its namespace.
    await api.merge(TEMPLATE, {"metadata": {"finalizers": None}})
