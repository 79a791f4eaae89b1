"""The console's pages, and who may see what on them."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest
from support.builders import condition, make

from aim_cli.cluster.refs import JsonObject, Ref
from aim_cli.console import pages
from aim_cli.console.access import NOT_ALLOWED, NOT_PUBLISHED, Access, Rights, Sight, question
from aim_cli.console.graph import mark_of
from aim_cli.console.newest import visible_rows
from aim_cli.console.past import drawn
from aim_cli.console.templating import render
from aim_cli.log.report import Bar
from aim_domain import kinds
from aim_domain.kind_names import AIM_CLUSTER_MODEL, AIM_CLUSTER_SERVICE_TEMPLATE, AIM_SERVICE, GATEWAY, NODE, KindName
from controller_runtime import Key
from controller_runtime.log.history.decisions import DecisionRecord, RecordedWrite

T = TypeVar("T")
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
EVIL = "<script>alert(1)</script>\x1b[2J"
ALL = Rights(frozenset({AIM_SERVICE.resource, AIM_CLUSTER_MODEL.resource, NODE.resource}))
FRAME: JsonObject = {
    "place": "home", "version": 1, "complete": True, "lost_at": None, "unasked": {}, "trouble": "", "stale": [],
    "decided": [],
}  # fmt: skip


class Objects:
    """What is known, as a mirror tells it."""

    def __init__(self, *objects: tuple[KindName, JsonObject]) -> None:
        self._objects = objects

    def holds(self, kind: KindName) -> bool:
        return kind != GATEWAY

    def object(self, ref: Ref) -> JsonObject | None:
        found = self.objects(ref.kind, ref.namespace, "")
        return next((obj for obj in found if _named(obj) == (ref.namespace, ref.name)), None)

    def objects(self, kind: KindName, namespace: str, owner: str) -> Iterable[JsonObject]:
        assert not owner or kind != AIM_SERVICE, "nothing makes services"
        return [obj for own, obj in self._objects if own == kind and namespace in ("", _named(obj)[0])]

    def each(
        self, kind: KindName, namespace: str, make: Callable[[KindName, JsonObject], T]
    ) -> Iterable[tuple[str, T]]:
        return [(_named(obj)[0], make(kind, obj)) for obj in self.objects(kind, namespace, "")]

    def unknowns(self, _: KindName) -> dict[Ref, str]:
        return {}


def _named(obj: JsonObject) -> tuple[str, str]:
    return obj["metadata"].get("namespace") or "", obj["metadata"]["name"]


def service(
    name: str, namespace: str = "team-a", status: str = "Running", message: str = ""
) -> tuple[KindName, JsonObject]:
    condition = {"type": "Ready", "status": "True" if status == "Running" else "False", "reason": "Because"}
    condition |= {"message": message, "lastTransitionTime": "2026-11-23T11:00:00Z"}
    reported = {"status": status, "conditions": [condition]}
    return AIM_SERVICE, make(
        kinds.AIM_SERVICE, name, namespace=namespace, spec={"model": {"name": "m"}}, status=reported
    )


# Who may see what


@pytest.mark.spec("FW-633")
def test_a_viewer_is_asked_about_first_for_the_whole_cluster_and_again_after_a_minute_or_five() -> None:
    asked, now = list[JsonObject](), [0.0]

    async def review(body: JsonObject) -> JsonObject:
        what = body["spec"]["resourceAttributes"]
        asked.append(what)
        return {"status": {"allowed": what.get("namespace") == "team-a"}}

    access = Access(review, lambda: now[0])
    rights = asyncio.run(access.rights([AIM_SERVICE, NODE], ["team-a", "team-b"]))
    assert rights.admits(AIM_SERVICE.resource, "team-a")
    assert not rights.admits(AIM_SERVICE.resource, "team-b")
    assert not rights.admits(AIM_SERVICE.resource, "")
    assert not rights.admits(NODE.resource, "")
    assert len(asked) == 4, "nodes are in no namespace"
    asyncio.run(access.rights([AIM_SERVICE, NODE], ["team-a", "team-b"]))
    assert len(asked) == 4
    now[0] = 61
    asyncio.run(access.rights([AIM_SERVICE, NODE], ["team-a", "team-b"]))
    assert [one.get("namespace") for one in asked[4:]] == ["team-a"], "what may be seen is asked about each minute"
    now[0] = 301
    asyncio.run(access.rights([AIM_SERVICE, NODE], ["team-a", "team-b"]))
    assert len(asked) == 9, "what may not be seen every five"


@pytest.mark.spec("FW-633")
def test_who_may_list_everywhere_is_not_asked_about_each_namespace() -> None:
    asked = list[JsonObject]()

    async def review(body: JsonObject) -> JsonObject:
        asked.append(body)
        return {"status": {"allowed": True}}

    rights = asyncio.run(Access(review).rights([AIM_SERVICE], ["team-a", "team-b"]))
    assert rights.admits(AIM_SERVICE.resource, "team-b")
    assert asked == [question(AIM_SERVICE, "")]
    assert asked[0]["spec"] == {
        "resourceAttributes": {"verb": "list", "group": "aim.eai.amd.com", "resource": "aimservices"}
    }


@pytest.mark.spec("FW-633")
def test_objects_of_other_tenants_are_neither_found_nor_listed() -> None:
    known = Objects(service("chat", "team-a"), service("chat", "team-b"))
    sight = Sight(known, Rights(within=frozenset({(AIM_SERVICE.resource, "team-a")})))
    assert [_named(obj) for obj in sight.search(AIM_SERVICE)] == [("team-a", "chat")]
    assert sight.search(AIM_SERVICE, "team-b") == []
    assert sight.find(Ref(AIM_SERVICE, "team-b", "chat")) is None
    assert sight.search(NODE) == []
    assert sight.find(Ref(GATEWAY, "team-a", "public")) is None
    assert sight.unasked == {
        "AIMService team-b/chat": NOT_ALLOWED,
        "nodes": NOT_ALLOWED,
        "Gateway team-a/public": NOT_PUBLISHED,
    }


# Pages


@pytest.mark.spec("FW-631", "FW-635")
def test_home_tells_what_needs_somebody_and_finds_services() -> None:
    image = make(kinds.AIM_CLUSTER_MODEL, "qwen", status={"status": "Failed"})
    broken = service("broken", "team-b", "Failed", "no such image")
    known = Objects(service("chat"), broken, (AIM_CLUSTER_MODEL, image))
    found = pages.home(Sight(known, ALL), "", NOW)
    text = render("home.html", FRAME | found)
    assert text.index("team-b/broken") < text.index("team-a/chat"), "the worst first"
    assert "Because: no such image" in text
    assert '<a href="/objects/aimclustermodels/-/qwen">AIMClusterModel qwen</a>' in text
    assert 'class="sign broken"' in text
    assert "Failed" in text
    narrowed = pages.home(Sight(known, ALL), "team-a", NOW)
    assert [row.ref.name for row in narrowed["services"]] == ["chat"]
    assert (narrowed["found"], narrowed["total"]) == (1, 2)


@pytest.mark.spec("FW-631")
def test_an_empty_cluster_says_what_to_do() -> None:
    text = render("home.html", FRAME | pages.home(Sight(Objects(), ALL), "", NOW))
    assert "There is no AIMService yet" in text


@pytest.mark.spec("FW-635")
def test_only_what_says_that_it_is_well_has_that_sign() -> None:
    marks = {state: mark_of(state) for state in ("Running", "NotAvailable", "missing", "not known", "", "Failed")}
    assert marks == {
        "Running": "well",
        "NotAvailable": "rest",
        "missing": "hurt",
        "not known": "rest",
        "": "rest",
        "Failed": "broken",
    }
    assert mark_of("Terminating") == "way"


@pytest.mark.spec("FW-631", "FW-635")
def test_the_catalogue_says_why_a_template_does_not_fit() -> None:
    model = make(kinds.AIM_CLUSTER_MODEL, "qwen", spec={"image": "org/qwen:1"}, status={"status": "Ready"})
    lacking = condition("GpuAvailable", False, "NoSuchGpu", "no node has MI355X")
    template = make(
        kinds.AIM_CLUSTER_SERVICE_TEMPLATE, "big", spec={"modelName": "qwen"},
        status={"status": "NotAvailable", "conditions": [lacking]},
    )  # fmt: skip
    known = Objects((AIM_CLUSTER_MODEL, model), (AIM_CLUSTER_SERVICE_TEMPLATE, template))
    rights = Rights(ALL.everywhere | {AIM_CLUSTER_SERVICE_TEMPLATE.resource})
    text = render("catalogue.html", FRAME | pages.catalogue(Sight(known, rights), ""))
    assert "NoSuchGpu: no node has MI355X" in text
    assert 'class="sign rest"' in text
    nothing = render("catalogue.html", FRAME | pages.catalogue(Sight(known, rights), "llama"))
    assert "No model is called so" in nothing


@pytest.mark.spec("FW-631")
def test_conditions_in_the_way_stand_first() -> None:
    said = [condition(name, status) for name, status in (("A", True), ("B", "Unknown"), ("C", False), ("D", False))]
    chat = make(
        kinds.AIM_SERVICE, "chat", namespace="team-a", spec={}, status={"status": "Pending", "conditions": said}
    )
    found = pages.one_object(Sight(Objects((AIM_SERVICE, chat)), ALL), Ref(AIM_SERVICE, "team-a", "chat"), NOW)
    assert found is not None
    assert [one["type"] for one in found["conditions"]] == ["C", "D", "B", "A"]


@pytest.mark.spec("FW-635", "FW-554")
def test_what_users_wrote_never_becomes_markup_or_a_control_character() -> None:
    known = Objects(service("chat", status=EVIL, message=EVIL))
    sight = Sight(known, ALL)
    about = pages.one_object(sight, Ref(AIM_SERVICE, "team-a", "chat"), NOW)
    assert about is not None
    for text in (
        render("home.html", FRAME | pages.home(sight, "", NOW)),
        render("home.html", FRAME | pages.home(sight, EVIL, NOW)),
        render("object.html", FRAME | about | {"up": "/objects/aimservices/team-a/chat"}),
    ):
        assert "<script>alert" not in text
        assert "\x1b" not in text
        assert "&lt;script&gt;" in text


@pytest.mark.spec("FW-636")
def test_pages_say_since_when_the_broker_is_away() -> None:
    away = FRAME | {"lost_at": NOW - timedelta(minutes=5)}
    text = render("home.html", away | pages.home(Sight(Objects(), ALL), "", NOW))
    assert "has not answered since 11:55:00 UTC" in text
    assert "kubectl get pods -A -l app.kubernetes.io/part-of=aim-engine" in text, "what to do"
    young = FRAME | {"complete": False}
    denied = render("home.html", young | {"refused": "<denied>"} | pages.home(Sight(Objects(), ALL), "", NOW))
    assert "&lt;denied&gt;" in denied
    assert "Not everything is known yet" in render("home.html", young | pages.home(Sight(Objects(), ALL), "", NOW))


@pytest.mark.spec("FW-732")
def test_pages_call_nothing_missing_that_the_viewer_may_not_list() -> None:
    nobody = Sight(Objects(), Rights())
    text = render("home.html", FRAME | pages.home(nobody, "", NOW) | {"unasked": nobody.unasked})
    assert "You may list no AIMService." in text
    assert "Nothing of what you may list" in text
    nobody = Sight(Objects(), Rights())
    text = render("catalogue.html", FRAME | pages.catalogue(nobody, "") | {"unasked": nobody.unasked})
    assert "No model of those that you may list" in text


@pytest.mark.spec("FW-631")
def test_home_counts_what_there_is_and_says_whose_pods_hold_gpus() -> None:
    reported = {"amd.com/gpu.device-id": "74a1"}
    node = NODE, make(kinds.NODE, "n", labels=reported, spec={}, status={"allocatable": {"amd.com/gpu": "8"}})
    text = render("home.html", FRAME | pages.home(Sight(Objects(node), ALL), "", NOW))
    assert "<b>0 of 8</b> GPUs in use by the platform" in text
    assert "What there is" not in render("home.html", FRAME | pages.home(Sight(Objects(), ALL), "", NOW))


@pytest.mark.spec("FW-736")
def test_home_begins_with_whether_it_is_current() -> None:
    found = FRAME | pages.home(Sight(Objects(), ALL), "", NOW)
    assert "What is shown is current." in render("home.html", found)
    text = render("home.html", found | {"stale": ["pods-serving", "aimservices"]})
    assert "What is shown of pods-serving, aimservices may be outdated" in text
    assert "What is shown is current." not in text
    text = render("home.html", found | {"lost_at": NOW, "decided": None})
    assert "What is shown is current." not in text
    assert "They cannot be read without the broker." in text


@pytest.mark.spec("FW-736")
def test_recent_decisions_lead_to_their_replay_and_stay_text() -> None:
    record = DecisionRecord(
        id="d1", service="serving", controller="service", part="aimservices", namespace="team-a", name=EVIL, at=NOW,
        writes=(RecordedWrite(verb="apply", kind="InferenceService", namespace="team-a", name=EVIL),),
    )  # fmt: skip
    rights = Rights(within=frozenset({(AIM_SERVICE.resource, "team-a")}), made={"team-a": NOW})
    (row,) = visible_rows([record, record.model_copy(update={"namespace": "team-b"})], rights)
    assert row["decision"].endswith("/replay/d1")
    text = render("home.html", FRAME | pages.home(Sight(Objects(), ALL), "", NOW) | {"decided": [row]})
    assert "AIMService team-a/&lt;script&gt;" in text
    assert "InferenceService" not in text, "which the viewer may not list"
    assert "<script>alert" not in text


@pytest.mark.spec("FW-631")
def test_the_address_of_an_object_leads_to_it_and_back() -> None:
    for ref in (Ref(AIM_SERVICE, "team-a", "chat"), Ref(AIM_CLUSTER_MODEL, "", "qwen")):
        plural, namespace, name = pages.href(ref).split("/")[2:]
        assert pages.ref_at(plural, namespace, name) == ref
    assert pages.ref_at("nothings", "-", "x") is None


@pytest.mark.spec("FW-631")
def test_bars_stand_on_one_scale() -> None:
    own = Bar("AIMService", Key("team-a", "chat"), NOW, NOW + timedelta(seconds=10), "Running", (NOW,))
    open_ = Bar("AIMArtifact", Key("team-a", "w"), NOW + timedelta(seconds=5), None, "Downloading")
    first, second = drawn([own, open_])
    assert (first.left, first.width, first.open, first.after, first.strokes) == (0, 100, False, "10.00 s", (0.0,))
    assert (second.left, second.width, second.open, second.after) == (50, 50, True, "")
    assert drawn([]) == []
