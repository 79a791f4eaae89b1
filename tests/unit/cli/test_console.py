"""The console's pages, and who may see what on them."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest
from support import console_objects
from support.builders import condition, make

from aim_cli.cluster.refs import KNOWN, JsonObject, Ref
from aim_cli.log.report import Bar
from aim_cli.log.timeline import Moment
from aim_cli.why.remedies import split_remedy
from aim_console import home_page, pages
from aim_console.access import NOT_ALLOWED, NOT_PUBLISHED, Access, Rights, Sight, question
from aim_console.capacity_page import GpuHolder, Others, capacity
from aim_console.graph import mark_of
from aim_console.log_pages import changes_since
from aim_console.newest import visible_rows
from aim_console.past import drawn, folded
from aim_console.templating import render
from aim_domain import kinds
from aim_domain.kind_names import (
    AIM_CLUSTER_MODEL,
    AIM_CLUSTER_SERVICE_TEMPLATE,
    AIM_SERVICE,
    GATEWAY,
    NODE,
    POD,
    KindName,
)
from controller_runtime import Key, timestamp
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

    def objects(
        self,
        kind: KindName,
        namespace: str,
        owner: str,
        label: str = "",  # noqa: ARG002
    ) -> Iterable[JsonObject]:
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


@pytest.mark.spec("FW-631", "FW-635", "FW-869")
def test_home_tells_what_needs_attention_and_finds_services() -> None:
    image = make(kinds.AIM_CLUSTER_MODEL, "qwen", status={"status": "Failed"})
    broken = service("broken", "team-b", "Failed", "no such image")
    known = Objects(service("chat"), broken, (AIM_CLUSTER_MODEL, image))
    text = home(known)
    assert "1 of 2 services needs attention; 2 causes; the oldest for 1h" in text
    assert text.index("team-b/broken") < text.index("team-a/chat"), "the worst first"
    assert "Because: no such image" in text
    assert '<a href="/objects/aimclustermodels/-/qwen">AIMClusterModel qwen</a>' in text
    assert 'class="sign broken"' in text
    narrowed = home_page.home(Sight(known, ALL), home_page.Filter("team-a"), NOW)
    assert [row["ref"].name for row in narrowed["services"]] == ["chat"]
    assert (narrowed["found"], narrowed["total"]) == (1, 2)


@pytest.mark.spec("FW-870")
def test_home_narrows_to_what_went_wrong_lately() -> None:
    old, new = service("old", status="Failed"), service("new", status="Failed", message="another cause")
    new[1]["status"]["conditions"][0]["lastTransitionTime"] = timestamp(NOW - timedelta(minutes=5))
    known = Sight(Objects(service("well"), old, new), ALL)
    asked = home_page.Filter.of_query({"last": "15m"})
    found = home_page.home(known, asked, NOW)
    assert [row["ref"].name for row in found["services"]] == ["new"]
    assert [one["summary"] for one in found["causes"]] == ["1 AIMService in team-a"]
    assert found["choices"]["last"] == [("15m", 1), ("1h", 2), ("6h", 2), ("1d", 2)]
    assert asked.address() == "/?last=15m"
    assert not home_page.Filter.of_query({"last": "3y"}).narrows


def first_page(*objects: tuple[KindName, JsonObject]) -> JsonObject:
    return home_page.home(Sight(Objects(*objects), ALL), home_page.Filter(), NOW)


def home(known: Objects, asked: home_page.Filter = home_page.Filter()) -> str:  # noqa: B008 - it is frozen
    return render("home.html", FRAME | home_page.home(Sight(known, ALL), asked, NOW))


@pytest.mark.spec("FW-868", "FW-869")
def test_services_that_wait_for_the_same_are_one_cause_with_one_remedy() -> None:
    refused = (service(f"chat-{one}", f"team-{one % 2}", "Failed", f"no token of chat-{one}") for one in range(40))
    known = Objects(*refused, service("other", "team-a", "Degraded", "no route"), service("well"))
    text = home(known)
    assert "41 of 42 services need attention; 2 causes" in text
    assert "40 AIMServices in 2 namespaces" in text
    assert "and 35 more" in text
    assert text.index("40 AIMServices") < text.index("1 AIMService in team-a"), "the worst first"
    assert text.count('data-copy="kubectl describe aimservice') == 2
    assert text.count("Each for itself, such as") == 1
    hurt = Objects(service("one", "team-a", "Failed", "no token"), service("two", "team-a", "Degraded", "no token"))
    found = home_page.home(Sight(hurt, ALL), home_page.Filter(), NOW)
    assert sum(len(one["named"]) for one in found["causes"]) == 2, "no state hides another"


@pytest.mark.spec("FW-869")
def test_a_model_that_several_services_wait_for_is_one_cause_of_all() -> None:
    absent = condition("ImageReady", False, "ImageNotFound", "no such image")
    model = make(kinds.AIM_CLUSTER_MODEL, "qwen", spec={}, status={"status": "Failed", "conditions": [absent]})

    def waiting(name: str, namespace: str) -> tuple[KindName, JsonObject]:
        lacking = condition("ModelReady", False, "ModelNotReady", "AIMClusterModel qwen is Failed")
        resolved = {"name": "qwen", "scope": "Cluster", "kind": "aim.eai.amd.com/v1alpha1/AIMClusterModel"}
        status = {"status": "Degraded", "conditions": [lacking], "resolvedModel": resolved}
        spec = {"model": {"name": "qwen"}}
        return AIM_SERVICE, make(kinds.AIM_SERVICE, name, namespace=namespace, spec=spec, status=status)

    found = home_page.home(
        Sight(Objects((AIM_CLUSTER_MODEL, model), waiting("a", "x"), waiting("b", "y")), ALL), home_page.Filter(), NOW
    )
    (cause,) = found["causes"]
    assert (str(cause["cause"]["ref"]), cause["alike"], cause["summary"]) == (
        "AIMClusterModel qwen",
        False,
        "2 AIMServices in 2 namespaces",
    )


@pytest.mark.spec("FW-869")
def test_what_lies_on_the_way_to_a_cause_is_no_cause_of_its_own() -> None:
    known = Objects(*((one_kind(obj), obj) for obj in console_objects.cluster(0)))
    rights = Rights(frozenset(kind.resource for kind in KNOWN))
    found = home_page.home(Sight(known, rights), home_page.Filter(namespace="team-0"), datetime.now(UTC))
    (failing,) = (one for one in found["causes"] if one["named"][0]["ref"].name == "broken")
    assert str(failing["cause"]["ref"]) == "AIMArtifact team-0/mixtral-8x22b-weights"
    assert failing["cause"]["what"].startswith("DownloadComplete=False AuthError")
    assert [one["summary"] for one in found["causes"]] == ["1 AIMService in team-0"] * 2, "no cache, no artifact"


def one_kind(obj: JsonObject) -> KindName:
    return next(kind for kind in KNOWN if kind.kind == obj["kind"])


@pytest.mark.spec("FW-870")
def test_the_filter_stands_in_the_address_and_narrows_causes_and_services() -> None:
    known = Objects(*(service(f"chat-{one:03}") for one in range(120)), service("bad", "team-b", "Failed", "no image"))
    asked = home_page.Filter.of_query({"q": "chat", "namespace": "team-a", "page": "2"})
    found = home_page.home(Sight(known, ALL), asked, NOW)
    assert [row["ref"].name for row in found["services"]][::49] == ["chat-050", "chat-099"]
    assert (found["causes"], found["found"], found["first"]) == ([], 120, 51)
    assert found["earlier"] == "/?q=chat&namespace=team-a"
    assert found["later"] == "/?q=chat&namespace=team-a&page=3"
    assert found["choices"]["namespace"] == [("team-a", 120), ("team-b", 1)]
    failed = home_page.home(Sight(known, ALL), home_page.Filter(state="Failed"), NOW)
    assert [row["ref"].name for row in failed["services"]] == ["bad"]
    for page in ("0", "-1", "x", "9" * 5000, "\u0663"):
        assert home_page.home(Sight(known, ALL), home_page.Filter.of_query({"page": page}), NOW)["first"] == 1
    beyond = home_page.home(Sight(known, ALL), home_page.Filter(page=99), NOW)
    assert len(beyond["services"]) == 21, "the last page"


@pytest.mark.spec("FW-870")
def test_home_of_thousands_of_services_weighs_little() -> None:
    many = (service(f"chat-{one:04}", f"team-{one % 20}", "Failed", "the token is refused") for one in range(5000))
    assert len(home(Objects(*many)).encode()) < 100_000


@pytest.mark.spec("FW-871")
def test_a_page_begins_with_the_cause_and_a_command_to_copy() -> None:
    known = Objects(*((one_kind(obj), obj) for obj in console_objects.cluster(0)))
    rights = Rights(frozenset(kind.resource for kind in KNOWN))
    found = pages.one_object(Sight(known, rights), Ref(AIM_SERVICE, *console_objects.FAILING), NOW)
    assert found is not None
    assert str(found["cause"]["ref"]) == "AIMArtifact team-0/mixtral-8x22b-weights"
    assert found["cause"]["command"] == "kubectl edit aimservice broken -n team-0"
    assert found["cause"]["advice"].startswith("correct the Secret that env of the service")
    assert [one["ref"].kind.kind for one in found["steps"]] == ["AIMTemplateCache", "AIMService"]
    text = render("object.html", FRAME | found | {"up": ""})
    assert text.index("AuthError") < text.index('data-copy="kubectl edit aimservice broken -n team-0"')
    assert text.index("data-copy") < text.index("AIMTemplateCache")


@pytest.mark.spec("FW-871")
@pytest.mark.parametrize(
    ("remedy", "parts"),
    [
        ("correct the image: kubectl edit aimmodel m", ("correct the image", "kubectl edit aimmodel m")),
        ("kubectl describe pod p -n n", ("", "kubectl describe pod p -n n")),
        ("free a GPU, or add nodes", ("free a GPU, or add nodes", "")),
        # Of two commands none is the one to copy.
        ("raise it: kubectl edit ns a, or kubectl edit b", ("raise it: kubectl edit ns a, or kubectl edit b", "")),
        ("look (kubectl get pv), then: kubectl delete c", ("look (kubectl get pv), then", "kubectl delete c")),
    ],
)
def test_a_remedy_is_words_and_a_command(remedy: str, parts: tuple[str, str]) -> None:
    assert split_remedy(remedy) == parts


@pytest.mark.spec("FW-873")
def test_a_story_does_not_repeat_itself() -> None:
    def moment(second: int, name: str, what: str) -> Moment:
        return Moment(NOW + timedelta(seconds=second), "artifacts", "AIMArtifact", Key("a", name), what, "", "")

    said = [moment(0, "w", "Ready"), moment(1, "v", "Ready"), moment(2, "w", "Ready"), moment(3, "w", "Failed")]
    rows = folded([*said, moment(4, "w", "Ready")])
    assert [(row["about"], row["what"], row["times"]) for row in rows] == [
        ("AIMArtifact a/w", "Ready", 2),
        ("AIMArtifact a/v", "Ready", 1),
        ("AIMArtifact a/w", "Failed", 1),
        ("AIMArtifact a/w", "Ready", 1),
    ]
    assert rows[0]["until"] == NOW + timedelta(seconds=2)
    assert "× 2 until 12:00:02" in render("story.html", FRAME | STORY | {"moments": rows})


@pytest.mark.spec("FW-878")
def test_a_moment_leads_to_its_trace_where_traces_are_kept() -> None:
    one = Moment(NOW, "artifacts", "AIMArtifact", Key("a", "w"), "Ready", 'f"><script>', "")
    found = FRAME | STORY | {"moments": folded([one])}
    kept = render("story.html", found | {"trace_url": "https://traces.example/explore?id={trace}&org=1"})
    assert 'href="https://traces.example/explore?id=f%22%3E%3Cscript%3E&amp;org=1"' in kept
    assert ">trace</a>" not in render("story.html", found)


STORY: JsonObject = {"bars": [], "up": "", "title": "t", "last": "", "ranges": ["1h"], "left_out": 0}


@pytest.mark.spec("FW-874")
def test_the_past_tells_what_differs_today() -> None:
    then, today = service("chat", status="Starting")[1], service("chat", message="ok")[1]
    today["metadata"]["generation"] = 2
    changes = changes_since(then, today)
    assert changes is not None
    assert [(one["member"], one["then"], one["now"]) for one in changes] == [
        ("status.conditions[Ready].message", "", "ok"),
        ("status.conditions[Ready].status", "False", "True"),
        ("status.status", "Starting", "Running"),
    ]
    assert changes_since(then, None) is None
    assert changes_since(then, then) == []


@pytest.mark.spec("FW-631")
def test_an_empty_cluster_says_what_to_do() -> None:
    assert "There is no AIMService yet" in home(Objects())


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
    text = render("catalogue.html", FRAME | pages.catalogue(Sight(known, rights), "", NOW))
    assert "NoSuchGpu: no node has MI355X" in text
    assert 'class="sign rest"' in text
    nothing = render("catalogue.html", FRAME | pages.catalogue(Sight(known, rights), "llama", NOW))
    assert "No model is called so" in nothing


@pytest.mark.spec("FW-884")
def test_the_catalogue_is_narrowed_to_what_came_or_went_wrong() -> None:
    def model(name: str, age: int, reported: JsonObject) -> JsonObject:
        body = make(kinds.AIM_CLUSTER_MODEL, name, spec={"image": f"org/{name}:1"}, status=reported)
        body["metadata"]["creationTimestamp"] = (NOW - timedelta(minutes=age)).isoformat()
        return body

    since = (NOW - timedelta(minutes=10)).isoformat()
    lacking = {**condition("GpuAvailable", False, "NoSuchGpu", "no node has MI355X"), "lastTransitionTime": since}
    failing = {"status": "NotAvailable", "conditions": [lacking]}
    old, new = model("old", 5000, {"status": "Ready"}), model("new", 30, {"status": "Ready"})
    sight = Sight(Objects(*((AIM_CLUSTER_MODEL, one) for one in (old, new, model("wrong", 5000, failing)))), ALL)

    def named(last: str) -> list[str]:
        return [row.ref.name for row, _ in pages.catalogue(sight, "", NOW, last)["models"]]

    assert named("") == ["old", "new", "wrong"]
    assert named("1h") == ["new", "wrong"]
    assert named("15m") == ["wrong"]
    text = render("catalogue.html", FRAME | pages.catalogue(sight, "w", NOW, "15m"))
    assert 'href="/catalogue?q=w&amp;last=1h"' in text, "the range keeps the words"
    assert '<input type="hidden" name="last" value="15m">' in text, "the words keep the range"
    nothing = render("catalogue.html", FRAME | pages.catalogue(sight, "old", NOW, "15m"))
    assert "No model of this name came or went wrong in the last 15m." in nothing


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
        render("home.html", FRAME | home_page.home(sight, home_page.Filter(), NOW)),
        render("home.html", FRAME | home_page.home(sight, home_page.Filter(EVIL), NOW)),
        render("object.html", FRAME | about | {"up": "/objects/aimservices/team-a/chat"}),
    ):
        assert "<script>alert" not in text
        assert "\x1b" not in text
        assert "&lt;script&gt;" in text


@pytest.mark.spec("FW-636")
def test_pages_say_since_when_the_broker_is_away() -> None:
    away = FRAME | {"lost_at": NOW - timedelta(minutes=5)}
    text = render("home.html", away | first_page())
    assert "has not answered since 11:55:00 UTC" in text
    assert "kubectl get pods -A -l app.kubernetes.io/part-of=aim-engine" in text, "what to do"
    young = FRAME | {"complete": False}
    denied = render("home.html", young | {"refused": "<denied>"} | first_page())
    assert "&lt;denied&gt;" in denied
    assert "Not everything is known yet" in render("home.html", young | first_page())


@pytest.mark.spec("FW-732")
def test_pages_call_nothing_missing_that_the_viewer_may_not_list() -> None:
    stranger = Sight(Objects(), Rights())
    text = render(
        "home.html", FRAME | home_page.home(stranger, home_page.Filter(), NOW) | {"unasked": stranger.unasked}
    )
    assert "You may list no AIMService." in text
    assert "No service of what you may list" in text
    stranger = Sight(Objects(), Rights())
    text = render("catalogue.html", FRAME | pages.catalogue(stranger, "", NOW) | {"unasked": stranger.unasked})
    assert "No model of those that you may list" in text


@pytest.mark.spec("FW-631")
def test_home_counts_what_there_is_and_says_whose_pods_hold_gpus() -> None:
    reported = {"amd.com/gpu.device-id": "74a1"}
    node = NODE, make(kinds.NODE, "n", labels=reported, spec={}, status={"allocatable": {"amd.com/gpu": "8"}})
    text = render("home.html", FRAME | first_page(node))
    assert "0 of 8</a></b> GPUs in use by the platform" in text
    assert "What there is" not in render("home.html", FRAME | first_page())


@pytest.mark.spec("FW-869", "FW-875", "FW-883")
def test_gpus_are_in_use_by_pods_that_have_a_node_by_model_and_by_namespace() -> None:
    def pod(name: str, namespace: str, node: str) -> tuple[KindName, JsonObject]:
        asks = {"nodeName": node, "containers": [{"resources": {"requests": {"amd.com/gpu": "4"}}}]}
        return POD, make(kinds.POD, name, namespace=namespace, spec=asks, status={"phase": "Running"})

    def node(name: str, device: str) -> tuple[KindName, JsonObject]:
        labels = {"amd.com/gpu.device-id": device}
        return NODE, make(kinds.NODE, name, labels=labels, spec={}, status={"allocatable": {"amd.com/gpu": "8"}})

    known = Objects(
        node("a", "74a1"), node("b", "74a1"), node("c", "75a3"),
        pod("one", "team-a", "a"), pod("two", "team-b", "a"), pod("three", "team-a", "c"), pod("late", "team-b", ""),
    )  # fmt: skip
    sight = Sight(known, Rights(ALL.everywhere | {POD.resource}))
    found = capacity(sight, NOW)
    assert found["gpus"] == {"used": 12, "waiting": 4, "total": 24, "nodes": 3}
    assert [(one["model"], one["nodes"], one["used"], one["total"]) for one in found["pools"]] == [
        ("MI300X", 2, 8, 16),
        ("MI355X", 1, 4, 8),
    ]
    assert found["teams"] == [
        {"namespace": "team-a", "used": 8, "others": 0, "waiting": 0},
        {"namespace": "team-b", "used": 4, "others": 0, "waiting": 4},
    ]
    assert "12 of 24 in use on 3 nodes, 4 more requested" in render("capacity.html", FRAME | found)
    assert home_page.home(sight, home_page.Filter(), NOW)["gpus"] == found["gpus"]

    # A training job beside team-b's service, and one that has no node yet.
    others = Others((GpuHolder("training", "a", 2), GpuHolder("team-b", "c", 1), GpuHolder("training", "", 8)))
    found = capacity(sight, NOW, others=others)
    assert [(one["model"], one["used"], one["others"]) for one in found["pools"]] == [
        ("MI300X", 8, 2),
        ("MI355X", 4, 1),
    ]
    assert found["teams"] == [
        {"namespace": "team-a", "used": 8, "others": 0, "waiting": 0},
        {"namespace": "team-b", "used": 4, "others": 1, "waiting": 4},
        {"namespace": "training", "used": 0, "others": 2, "waiting": 8},
    ]
    text = render("capacity.html", FRAME | found)
    assert "12 of 24 in use by the platform, 3 by others, on 3 nodes" in text
    assert 'width="62.5"' in text, "10 of 16 MI300X are taken"
    refused = render("capacity.html", FRAME | capacity(sight, NOW, others=Others(refused="pods is <forbidden>")))
    assert "Pods of others cannot be read: pods is &lt;forbidden&gt;" in refused
    assert "by others<" not in refused


@pytest.mark.spec("FW-736")
def test_home_begins_with_whether_it_is_current() -> None:
    found = FRAME | first_page()
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
    text = render("home.html", FRAME | first_page() | {"decided": [row]})
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


@pytest.mark.spec("FW-873")
def test_bars_of_a_window_are_what_happened_in_it() -> None:
    def at(seconds: int) -> datetime:
        return NOW + timedelta(seconds=seconds)

    early = Bar("AIMModel", Key("a", "m"), NOW, at(5), "Ready", (at(1),))
    written = Bar("AIMService", Key("a", "s"), NOW, at(8), "Running", (at(1), at(150)))
    late = Bar("Pod", Key("a", "p"), at(120), at(140), "Running")
    never = Bar("AIMArtifact", Key("a", "w"), at(5), None, "Failed")
    found = drawn([early, written, late, never], (at(100), at(200)))
    assert [bar.name for bar in found] == ["AIMService a/s", "Pod a/p", "AIMArtifact a/w"]
    service, pod, artifact = found
    assert (service.left, service.width, service.strokes) == (0, 0, (50.0,))
    assert (pod.left, pod.width, pod.after) == (20, 20, "20.00 s")
    assert (artifact.left, artifact.width, artifact.open) == (0, 100, True)
