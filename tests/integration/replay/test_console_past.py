"""The console and the broker: an object at an earlier moment, and what it makes of each version once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
from support.bus_source import Source
from support.nats import eventually

from aim_cli.cluster.refs import KNOWN, JsonObject, Ref
from aim_cli.errors import TargetError
from aim_cli.log.targets import target_of
from aim_console import mirror as mirror_module
from aim_console import past
from aim_console.access import Access, Rights
from aim_console.app import Console
from aim_console.bus_page import bus_page
from aim_console.decision import decision_page
from aim_console.log_pages import PageRequest, past_page, request_of
from aim_console.login import PrivateDoor
from aim_console.mirror import Mirror
from aim_console.pages import href
from aim_console.past import ELSEWHERE, Then, address, replayed, story, then
from aim_console.templating import render
from aim_domain import labels
from aim_domain.kind_names import AIM_CLUSTER_MODEL, AIM_SERVICE, AIM_TEMPLATE_CACHE, POD, KindName
from aim_domain.parts import CLUSTER_MODELS, DISCOVERY_PODS, NAMESPACES, PREDICTOR_PODS, SERVICES, TEMPLATE_CACHES
from aim_local.ports import free_port
from controller_runtime import Key, KubeClient, Part
from controller_runtime.kube.config import Connection, NoCredentials
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.history.decisions import DecisionRecord, RecordedWrite
from controller_runtime.log.history.reader import History
from controller_runtime.log.history.versions import Knowledge
from controller_runtime.log.wire.messages import Verb
from controller_runtime.log.wire.subjects import Layout
from controller_runtime.log.wire.version import Entry
from controller_runtime.manager.http import HttpServer
from controller_runtime.manager.settings import Address

CHAT = Ref(AIM_SERVICE, "ns", "chat")
NOWHERE = Connection("http://127.0.0.1:9", NoCredentials())
ALL = Rights(frozenset(kind.resource for kind in KNOWN))
FRAME = {"place": "", "version": 1, "complete": True, "lost_at": None, "unasked": {}, "trouble": ""}
OWN = frozenset({(AIM_SERVICE.resource, "ns")})
"""What a tenant may list."""
CACHE = {"cache": {"templateCacheRef": {"kind": "AIMTemplateCache", "namespace": "ns", "name": "weights"}}}
MODEL = {"resolvedModel": {"kind": "AIMClusterModel", "name": "chosen"}}


class Today:
    """Nobody owns anything, but for what a test says."""

    def __init__(self, *refs: Ref) -> None:
        self._refs = refs

    def holds(self, _: KindName) -> bool:
        return True

    def object(self, _: Ref) -> JsonObject | None:
        return None

    def owned(self, kind: KindName, owner: str) -> list[Ref]:
        assert owner
        return [ref for ref in self._refs if ref.kind == kind]


class Story:
    """Sources of several parts."""

    def __init__(self, bus: BusConnection, layout: Layout) -> None:
        parts: tuple[Part[Any], ...] = (SERVICES, TEMPLATE_CACHES, CLUSTER_MODELS, PREDICTOR_PODS, DISCOVERY_PODS)
        self._sources = {
            part.name: Source(bus, layout, part.name, epoch=f"20260101T000000.000Z-{number:06x}")
            for number, part in enumerate(parts)
        }

    def __getitem__(self, part: str) -> Source:
        return self._sources[part]

    async def say(self, part: str, name: str, namespace: str = "ns", **fields: object) -> datetime:
        """A version; returns a moment after it and before whatever comes next."""
        await self._sources[part].upsert(name, namespace=namespace, **fields)
        return await passed()


async def passed() -> datetime:
    moment = datetime.now(UTC)
    # Versions have the millisecond that has begun.
    await asyncio.sleep(0.001)
    return moment


@pytest.fixture
def log(bus: BusConnection, layout: Layout) -> History:
    return History(bus, layout)


@pytest.fixture
def reported(bus: BusConnection, layout: Layout) -> Story:
    return Story(bus, layout)


def below(found: Then) -> dict[str, str]:
    assert found.content is not None
    return {str(one["ref"]): one["state"] for one in found.content["tree"]["below"]}


@pytest.mark.spec("FW-670")
async def test_an_object_and_what_belonged_to_it_are_as_they_were(log: History, reported: Story) -> None:
    before = await passed()
    await reported.say(CLUSTER_MODELS.name, "chosen", "", status={"status": "Pending"})
    early = await reported.say(SERVICES.name, "chat", status={"status": "Pending", **MODEL})
    await reported.say(CLUSTER_MODELS.name, "chosen", "", status={"status": "Ready"})
    await reported.say(TEMPLATE_CACHES.name, "weights", status={"status": "Progressing"})
    later = await reported.say(SERVICES.name, "chat", status={"status": "Starting", **MODEL, **CACHE})
    await reported[TEMPLATE_CACHES.name].delete("weights")
    gone = await passed()

    assert (await then(log, Today(), ALL, CHAT, before)).knowledge is Knowledge.ABSENT
    first = await then(log, Today(), ALL, CHAT, early)
    assert first.content is not None
    assert first.content["state_word"] == "Pending"
    assert below(first) == {"AIMClusterModel chosen": "Pending"}
    second = await then(log, Today(), ALL, CHAT, later)
    assert below(second) == {"AIMClusterModel chosen": "Ready", "AIMTemplateCache ns/weights": "Progressing"}
    assert below(await then(log, Today(), ALL, CHAT, gone))["AIMTemplateCache ns/weights"] == "missing"


@pytest.mark.spec("FW-670", "FW-633")
async def test_of_the_past_as_well_only_what_the_viewer_may_list_is_reported(log: History, reported: Story) -> None:
    await reported.say(CLUSTER_MODELS.name, "chosen", "", status={"status": "Ready"})
    at = await reported.say(SERVICES.name, "chat", status={"status": "Running", **MODEL})
    some = Rights(within=OWN, made={"ns": at - timedelta(seconds=1)})
    assert below(await then(log, Today(), some, CHAT, at)) == {"AIMClusterModel chosen": "not known"}
    assert (await then(log, Today(), some, Ref(AIM_SERVICE, "other", "chat"), at)).content is None
    nothing = await then(log, Today(), Rights(), CHAT, at)
    assert nothing.content is None
    assert list(nothing.unasked) == [str(CHAT)]


@pytest.mark.spec("FW-633", "FW-670", "FW-674")
async def test_who_has_a_namespace_sees_nothing_of_who_had_the_name_before(
    bus: BusConnection, layout: Layout, log: History, reported: Story
) -> None:
    before = await reported.say(SERVICES.name, "chat", status={"status": "Failed"})
    await _decided(bus, layout, "d-before", before)
    # That it was deleted the log does not know.
    made = await passed()
    after = await passed()
    target = target_of(CHAT)
    assert target is not None
    heir, unknown = Rights(within=OWN, made={"ns": made}), Rights(within=OWN)

    async def seen(rights: Rights, at: str = "") -> list[object]:
        page = await past_page(log, Today(), PageRequest(CHAT, target, rights, at=at), datetime.now(UTC))
        reported = await story(log, target, rights)
        again = (await replayed(log, target, rights))["decisions"]
        decision = await decision_page(log, PageRequest(CHAT, target, rights), "d-before")
        return [
            page and page.get("state_word"),
            len(reported["bars"]),
            len(reported["moments"]),
            len(again),
            decision is None,
        ]

    assert await seen(ALL) == ["Failed", 1, 2, 1, False]
    assert await seen(heir) == ["", 0, 0, 0, True]
    assert await seen(unknown) == [None, 0, 0, 0, True]
    assert (await seen(heir, before.isoformat()))[0] is None, "the moment is another tenant's"
    assert (await then(log, Today(), heir, CHAT, after)).content is None
    await reported.say(SERVICES.name, "chat", status={"status": "Running"})
    await _decided(bus, layout, "d-after", await passed())
    assert (await seen(heir))[:4] == ["Running", 1, 2, 1]
    assert "Failed" not in str(await story(log, target, heir)), "nor what it was before"


@pytest.mark.spec("FW-633", "FW-670")
async def test_neither_story_nor_stops_nor_replay_name_what_the_viewer_may_not_see(
    bus: BusConnection, layout: Layout, log: History, reported: Story
) -> None:
    at = await reported.say(SERVICES.name, "chat", status={"status": "Pending"})
    await _decided(bus, layout, "d1", at, RecordedWrite(verb="apply", kind="Job", namespace="ns", name="secret-job"))
    target = target_of(CHAT)
    assert target is not None
    some = Rights(within=OWN, made={"ns": at - timedelta(minutes=1)})
    for rights, named in ((ALL, True), (some, False)):
        pages = (
            await story(log, target, rights),
            await replayed(log, target, rights),
            await past_page(log, Today(), PageRequest(CHAT, target, rights), await passed()),
        )
        assert [("secret-job" in str(page)) for page in pages] == [named] * 3


async def _decided(bus: BusConnection, layout: Layout, name: str, at: datetime, *writes: RecordedWrite) -> None:
    record = DecisionRecord(
        id=name, service="serving", controller="service", part=SERVICES.name, namespace="ns", name="chat", at=at,
        writes=writes,
    )  # fmt: skip
    await bus.publish(layout.decision("serving", SERVICES.name, record.key), record.to_json(), {})


@pytest.mark.spec("FW-670")
async def test_what_the_log_cannot_tell_is_not_guessed(log: History, reported: Story, bus: BusConnection) -> None:
    first = await reported.say(SERVICES.name, "chat", status={"status": "Pending"})
    source = reported[SERVICES.name]
    # A version of which the history knows only that there was one.
    source.history = False
    lost = await reported.say(SERVICES.name, "chat", status={"status": "Starting"})
    source.history = True
    await reported.say(SERVICES.name, "chat", status={"status": "Running"})
    for at in (first, lost):
        found = await then(log, Today(), ALL, CHAT, at)
        assert found.unasked[str(CHAT)].startswith("the event log cannot tell how it was"), at
    await source._store(Key("ns", "chat"), Verb.UPSERT, source.change("chat")["metadata"], b"garbage")
    unreadable = await then(log, Today(), ALL, CHAT, await passed())
    assert unreadable.content is None
    assert unreadable.unasked[str(CHAT)] == "the version of then cannot be read"


@pytest.mark.spec("FW-670")
async def test_a_pod_is_found_in_whichever_part_it_is(log: History, reported: Story) -> None:
    at = await reported.say(DISCOVERY_PODS.name, "look", status={"phase": "Running"}, spec={"containers": []})
    found = await then(log, Today(), ALL, Ref(POD, "ns", "look"), at)
    assert found.content is not None
    assert found.content["state_word"] == "Running"


@pytest.mark.spec("FW-670")
async def test_of_what_was_made_in_all_of_the_cluster_the_rest_is_said_to_be_unknown(
    log: History, reported: Story
) -> None:
    at = await reported.say(CLUSTER_MODELS.name, "chosen", "", status={"status": "Ready"})
    uid = reported[CLUSTER_MODELS.name].truth[Key("", "chosen")]["metadata"]["uid"]
    cache = reported[TEMPLATE_CACHES.name].change("weights", status={"status": "Progressing"})
    cache["metadata"]["ownerReferences"] = [{"kind": "AIMClusterModel", "name": "chosen", "uid": uid}]
    await reported[TEMPLATE_CACHES.name].publish(Key("ns", "weights"), cache)
    model, made = Ref(AIM_CLUSTER_MODEL, "", "chosen"), Ref(AIM_TEMPLATE_CACHE, "ns", "weights")
    found = await then(log, Today(made), ALL, model, await passed())
    assert below(found) == {"AIMTemplateCache ns/weights": "Progressing"}
    assert ELSEWHERE in found.unasked
    assert below(await then(log, Today(made), ALL, model, at)) == {}


@pytest.mark.spec("FW-670")
async def test_stops_are_the_moments_of_the_story_and_lead_to_each_other(log: History, reported: Story) -> None:
    for state in ("Pending", "Starting", "Running"):
        await reported.say(SERVICES.name, "chat", status={"status": state})
    target, now = target_of(CHAT), datetime.now(UTC)
    assert target is not None

    async def page(stop: str = "", at: str = "") -> JsonObject:
        found = await past_page(log, Today(), PageRequest(CHAT, target, ALL, stop, at), now)
        assert found is not None
        return found

    last = await page()
    assert (last["state_word"], last["past"]["number"], last["past"]["later"]) == ("Running", 2, "")
    middle = await page(stop="1")
    assert (middle["state_word"], middle["past"]["what"]) == (
        "Starting",
        "kubernetes: AIMService ns/chat: status Pending → Starting",
    )
    earlier = middle["past"]["earlier"].partition("?at=")[2]
    assert (await page(at=earlier))["state_word"] == "Pending"
    assert (await page(at=last["past"]["stops"][1]["at"]))["past"]["number"] == 1
    long_ago = await page(at="1h")
    assert (long_ago["absent"], long_ago["past"]["number"]) == ("It was not there.", None)
    assert (await page(stop="99"))["past"]["number"] == 2
    assert (await page(stop="9" * 5000))["past"]["number"] == 2
    with pytest.raises(TargetError):
        await page(at="yesterday")


@pytest.mark.spec("FW-670")
@pytest.mark.parametrize("zone", ["+02:00", " 02:00", "+0200"])
async def test_a_moment_of_another_zone_is_reported_in_utc_and_leads_to_itself(
    log: History, reported: Story, zone: str
) -> None:
    await reported.say(SERVICES.name, "chat", status={"status": "Running"})
    path = {"plural": "aimservices", "namespace": "ns", "name": "chat"}
    wanted = request_of(path, {"at": f"2099-11-23T14:05:00{zone}"}, ALL)
    assert wanted is not None
    found = await past_page(log, Today(), wanted, datetime.now(UTC))
    assert found is not None
    text = render("object.html", FRAME | found | {"up": href(CHAT)})
    assert "2099-11-23 12:05:00.000" in text
    link = address(CHAT, datetime.fromisoformat("2099-11-23T14:05:00+02:00"))
    assert link == "/objects/aimservices/ns/chat/past?at=2099-11-23T12:05:00Z"


@pytest.mark.spec("FW-670")
async def test_of_before_the_log_nobody_can_say_that_something_was_not_there(log: History, reported: Story) -> None:
    at = await reported.say(SERVICES.name, "other", status={"status": "Running"})

    class Cut(History):
        async def complete_since(self) -> dict[str, datetime]:
            return {"versions": at + timedelta(seconds=1)}

    log.__class__ = Cut
    found = await then(log, Today(), ALL, CHAT, at)
    assert (found.content, found.knowledge) == (None, Knowledge.UNKNOWN)
    assert found.unasked[str(CHAT)].startswith("the event log is complete since")


@pytest.mark.spec("FW-674")
async def test_a_decision_is_found_by_its_id_among_those_about_the_object(
    bus: BusConnection, layout: Layout, log: History, reported: Story
) -> None:
    at = await reported.say(SERVICES.name, "chat", status={"status": "Pending"})
    for number, name in enumerate(("chat", "chat", "other")):
        record = DecisionRecord(
            id=f"d{number}", service="serving", controller="service", part=SERVICES.name,
            namespace="ns", name=name, at=at,
        )  # fmt: skip
        await bus.publish(layout.decision("serving", SERVICES.name, record.key), record.to_json(), {})
    wanted = request_of({"plural": "aimservices", "namespace": "ns", "name": "chat"}, {}, ALL)
    assert wanted is not None
    found = await decision_page(log, wanted, "d1")
    assert found is not None
    assert (found["record"].id, found["verdict"]) == ("d1", "undetermined")
    assert found["because"] == ["missing: the settings: an older release did not record them"]
    assert await decision_page(log, wanted, "d2") is None, "it is about another object"
    assert request_of({"plural": "aimservices", "namespace": "ns", "name": "chat"}, {}, Rights()) is None


@pytest.mark.spec("FW-682")
async def test_of_many_decisions_the_newest_are_taken_again_and_the_page_says_so(
    bus: BusConnection, layout: Layout, log: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past, "MOST", 3)
    target, now = target_of(CHAT), datetime.now(UTC)
    assert target is not None
    for number in range(3):
        await _decided(bus, layout, f"d{number}", now + timedelta(seconds=number))
    assert (await replayed(log, target, ALL))["left_out"] == 0
    for number in range(3, 5):
        await _decided(bus, layout, f"d{number}", now + timedelta(seconds=number))
    found = await replayed(log, target, ALL)
    assert [one["link"][-2:] for one in found["decisions"]] == ["d2", "d3", "d4"]
    page = render("replay.html", FRAME | found | {"title": str(target), "up": href(CHAT)})
    assert "The newest 3; 2 before them" in page
    assert f"<code>aim replay AIMService {CHAT.namespace}/{CHAT.name}</code> takes all" in page


@pytest.mark.spec("FW-682")
async def test_a_few_pages_are_made_from_the_log_at_once(
    bus: BusConnection, layout: Layout, reported: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIM_NATS_ROOT", layout.root)
    await reported.say(SERVICES.name, "chat", status={"status": "Running"})

    async def review(_: JsonObject) -> JsonObject:
        return {"status": {"allowed": True}}

    async with following(bus) as mirror:
        console, port = (
            Console(mirror, PrivateDoor(Access(review), "token", KubeClient(NOWHERE, service="console"))),
            free_port(),
        )
        server = HttpServer(console.application(), Address("127.0.0.1", port))
        serving = asyncio.ensure_future(server.run())
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", cookie_jar=jar) as viewer:
            await viewer.get("/?token=token")

            async def answered(path: str) -> tuple[int, str]:
                async with viewer.get(path) as answer:
                    return answer.status, answer.headers.get("retry-after", "")

            paths = [f"{href(CHAT)}/{page}" for page in ("story", "past", "replay", "replay/none")]
            assert [await answered(path) for path in paths] == [(200, "")] * 3 + [(404, "")]
            # As many as one viewer may have under way.
            assert [console.readings.take("") for _ in range(2)] == [True, True]
            assert {await answered(path) for path in (*paths, "/bus/holes")} == {(429, "1")}
            assert await answered("/") == (200, "")
            console.readings.leave("")
            assert [await answered(path) for path in paths] == [(200, "")] * 3 + [(404, "")]
        serving.cancel()
        await asyncio.wait((serving,))


# The present


@asynccontextmanager
async def following(bus: BusConnection) -> AsyncIterator[Mirror]:
    found = Mirror(bus)
    running = asyncio.ensure_future(found.run())
    try:
        yield found
    finally:
        running.cancel()
        await asyncio.wait((running,))


@pytest.mark.spec("FW-675")
async def test_each_version_is_looked_at_once(
    bus: BusConnection, layout: Layout, reported: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIM_NATS_ROOT", layout.root)
    source, looked = reported[SERVICES.name], list[str]()

    def state(_: KindName, obj: JsonObject) -> str:
        looked.append(obj["metadata"]["name"])
        return str(obj["status"]["status"])

    await reported.say(SERVICES.name, "chat", status={"status": "Starting"})
    await reported.say(SERVICES.name, "other", "elsewhere", status={"status": "Running"})
    await source.mark()
    async with following(bus) as mirror:

        def seen(namespace: str = "") -> list[tuple[str, str]]:
            return sorted(mirror.each(AIM_SERVICE, namespace, state))

        both = [("elsewhere", "Running"), ("ns", "Starting")]
        await eventually(lambda: seen() == both, "both are known")
        looked.clear()
        assert (seen(), seen("ns"), looked) == (both, both[1:], [])
        await source.upsert("chat", status={"status": "Running"})
        await eventually(lambda: ("ns", "Running") in seen(), "the change is known")
        assert looked == ["chat"]
        await source.delete("chat")
        await eventually(lambda: seen() == both[:1], "it is gone")


@pytest.mark.spec("FW-869")
async def test_pods_are_found_by_the_labels_that_aim_why_asks_for(
    bus: BusConnection, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIM_NATS_ROOT", layout.root)
    source = Source(bus, layout, PREDICTOR_PODS.name)
    for name, workload in (("a-0", "a"), ("a-1", "a"), ("b-0", "b")):
        pod = source.change(name)
        pod["metadata"]["labels"] = {labels.KSERVE_INFERENCE_SERVICE: workload, "tier": "x"}
        await source.publish(Key("ns", name), pod)
    async with following(bus) as mirror:
        await source.mark()

        def named(label: str, namespace: str = "ns") -> list[str]:
            return sorted(one["metadata"]["name"] for one in mirror.objects(POD, namespace, "", label))

        await eventually(lambda: len(named("")) == 3, "all are known")
        decoded = list[str]()
        whole = mirror_module._json

        def counted(entry: Entry[Any], kind: KindName) -> JsonObject:
            decoded.append(entry.key.name)
            return whole(entry, kind)

        monkeypatch.setattr(mirror_module, "_json", counted)
        assert named(f"{labels.KSERVE_INFERENCE_SERVICE}=a") == ["a-0", "a-1"]
        assert sorted(decoded) == ["a-0", "a-1"], "the others are not decoded"
        assert named(f"{labels.KSERVE_INFERENCE_SERVICE}=a", "elsewhere") == []
        assert len(named("tier=x")) == len(named(labels.KSERVE_INFERENCE_SERVICE)) == 3, "who asks compares"


@pytest.mark.spec("FW-633")
async def test_when_a_namespace_was_made_is_known_only_while_somebody_vouches_for_it(
    bus: BusConnection, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIM_NATS_ROOT", layout.root)
    source, at = Source(bus, layout, NAMESPACES.name), "2026-11-21T12:00:00Z"
    namespace = source.change("team", namespace="")
    namespace["metadata"]["creationTimestamp"] = at
    await source.publish(Key("", "team"), namespace)
    async with following(bus) as mirror:
        await source.mark()
        await eventually(
            lambda: mirror.creation_times({"team", "other"}) == {"team": datetime.fromisoformat(at)}, "it is known"
        )
        assert NAMESPACES.name not in mirror.stale
        mirror._cache.mark(NAMESPACES, fresh=False)
        assert NAMESPACES.name in mirror.stale
        assert mirror.creation_times({"team"}) == {}


@pytest.mark.spec("FW-673")
async def test_the_page_of_the_log_tells_epochs_and_for_who_asks_holes(
    bus: BusConnection, layout: Layout, reported: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIM_NATS_ROOT", layout.root)
    source = reported[SERVICES.name]
    for number in range(3):
        # Of the second version the history knows only that there was one.
        source.history = number != 1
        await reported.say(SERVICES.name, "chat", status={"status": str(number)})
    await source.mark()
    async with following(bus) as mirror:
        await eventually(lambda: mirror.namespaces == {"ns"}, "it is known")
        now = await bus_page(mirror, holes=False)
        rows = {row["line"].name: row for row in now["parts"]}
        assert rows[SERVICES.name]["since"] == datetime(2026, 1, 1, tzinfo=UTC)
        assert rows[TEMPLATE_CACHES.name]["since"] is None
        assert [row[0] for row in now["streams"]] == [
            layout.state_stream,
            layout.history_stream,
            layout.decisions_stream,
        ]
        assert now["holes"] == []
        asked = await bus_page(mirror, holes=True)
        assert asked["holes"] == [(SERVICES.name, 1, 1)]
        assert {row["line"].name: row["holes"] for row in asked["parts"]}[SERVICES.name] == (1, 1)
