"""One decision as a page, for who may see what of it."""

import pytest

from aim_cli.cluster.refs import KNOWN, JsonObject, Ref
from aim_cli.log.targets import target_of
from aim_cli.log.timeline import deeds
from aim_console.access import UNSEEN_CAUSE, Rights
from aim_console.access import redact as of_a_viewer
from aim_console.decision import decision_json
from aim_console.log_pages import PageRequest
from aim_console.past import because
from aim_console.templating import render
from aim_domain.kind_names import AIM_ARTIFACT, AIM_CLUSTER_MODEL, AIM_SERVICE, INFERENCE_SERVICE
from aim_domain.parts import ARTIFACTS, CLUSTER_MODELS, INFERENCE_SERVICES, NAMESPACES, NODES, SERVICES
from controller_runtime import Key
from controller_runtime.log.history.decisions import (
    DecisionRecord,
    RecordedGroup,
    RecordedIndex,
    RecordedObject,
    RecordedReads,
    RecordedSummary,
    RecordedWrite,
)
from controller_runtime.log.history.reader import StoredDecision
from controller_runtime.log.wire.subjects import FACTS_PART
from controller_runtime.replay import Replayed, Verdict
from controller_runtime.testing import NOW

CHAT = Ref(AIM_SERVICE, "team", "chat")
EVIL = "<script>alert(1)</script>\x1b[2J"
OWN = frozenset({(AIM_SERVICE.resource, "team"), (INFERENCE_SERVICE.resource, "team")})
MADE = {"team": NOW}
RECORD = DecisionRecord(
    id="d1", service="serving", controller="service", part=SERVICES.name, namespace="team", name="chat", at=NOW,
    woken_by=EVIL,
    reads=RecordedReads(
        objects=(
            RecordedObject(part=SERVICES.name, namespace="team", name="chat", uid="u", resource_version="7"),
            RecordedObject(part=CLUSTER_MODELS.name, name="secret-model", uid="m", resource_version="8"),
            RecordedObject(part=INFERENCE_SERVICES.name, namespace="team", name="chat"),
        ),
        indexes=(RecordedIndex(part=ARTIFACTS.name, index="owner", value="team/u", keys=(("other", "secret"),)),),
        groups=(RecordedGroup(part=ARTIFACTS.name, count=200, asked="a", found="f"),),
    ),
    plan={
        "status": {"status": "Starting"},
        "children": [
            {"part": INFERENCE_SERVICES.name, "body": {"metadata": {"namespace": "team", "name": "chat"}}},
            {"part": ARTIFACTS.name, "body": {"metadata": {"namespace": "team", "name": "secret-artifact"}}},
        ],
        "deletes": [{"part": ARTIFACTS.name, "namespace": "other", "name": "secret-artifact"}],
    },
    writes=(
        RecordedWrite(verb="apply", kind="InferenceService", namespace="team", name="chat", result="ok"),
        RecordedWrite(verb="apply", kind="AIMArtifact", namespace="team", name="secret-artifact", result="ok"),
    ),
    outcome="done",
)  # fmt: skip


def asked(rights: Rights) -> PageRequest:
    target = target_of(CHAT)
    assert target is not None
    return PageRequest(CHAT, target, rights)


def page(rights: Rights, verdict: Verdict = Verdict.SAME, *differences: str) -> JsonObject:
    again = Replayed(StoredDecision(RECORD, NOW, 1), verdict, differences)
    return decision_json(RECORD, again, asked(rights))


def shown(content: JsonObject) -> str:
    frame = {"place": "", "version": 1, "complete": True, "lost_at": None, "unasked": {}, "trouble": ""}
    return render("decision.html", frame | content | {"up": "/objects/aimservices/team/chat"})


@pytest.mark.spec("FW-674")
def test_what_was_read_planned_and_written_and_what_today_would_be() -> None:
    everything = Rights(frozenset({one.resource for one in (AIM_CLUSTER_MODEL, AIM_ARTIFACT)}), OWN, MADE)
    content = page(everything, Verdict.DIFFERENT, "status.status: Starting, now Running")
    assert [(one["what"], one["found"]) for one in content["read"]] == [
        ("AIMService team/chat", True),
        ("AIMClusterModel secret-model", True),
        ("InferenceService team/chat", False),
    ]
    assert content["read"][1]["href"] == "/objects/aimclustermodels/-/secret-model/past?at=2026-11-21T12:00:00Z"
    assert (content["unseen"], content["hidden"], len(content["writes"])) == (0, 0, 2)
    text = shown(content)
    for words in ("different", "status.status: Starting, now Running", "200 read, kept as a digest", "secret-artifact"):
        assert words in text, words


@pytest.mark.spec("FW-674", "FW-633")
def test_nothing_is_reported_of_objects_that_the_viewer_may_not_see() -> None:
    content = page(Rights(within=OWN, made=MADE), Verdict.DIFFERENT, "children: secret-artifact")
    assert (content["unseen"], content["hidden"]) == (1, 2)
    assert content["because"] == ["it read objects that you may not see"]
    text = shown(content)
    assert "secret" not in text
    assert "InferenceService team/chat" in text
    assert "and 1 that you may not see" in text


@pytest.mark.spec("FW-674", "FW-554")
def test_what_users_wrote_stays_text_on_the_page_of_a_decision() -> None:
    record = RECORD.model_copy(update={"outcome": EVIL})
    text = shown(decision_json(record, None, asked(Rights(within=OWN, made=MADE))))
    assert "&lt;script&gt;" in text
    assert "<script>alert" not in text
    assert "\x1b" not in text


@pytest.mark.spec("FW-674", "FW-633")
@pytest.mark.parametrize(
    ("cause", "is_reported"),
    [
        ("AIMService team/chat changed", True),
        ("InferenceService team/chat is gone", True),
        ("Namespace team changed", True),
        ("Fact serving/1a2b appeared", True),
        ("Job team/discover-x changed", False),
        ("AIMService other/secret changed", False),
        ("AIMClusterModel secret appeared", False),
        ("Namespace secret changed", False),
        ("Secret of a kind that nobody knows", False),
    ],
)
def test_what_woke_a_decision_is_named_to_who_may_see_it(cause: str, *, is_reported: bool) -> None:
    record = RECORD.model_copy(update={"woken_by": cause})
    text = shown(decision_json(record, None, asked(Rights(within=OWN, made=MADE))))
    assert (cause in text) is is_reported
    assert (UNSEEN_CAUSE in text) is not is_reported
    silent = RECORD.model_copy(update={"woken_by": ""})
    assert "woken by nothing that changed" in shown(decision_json(silent, None, asked(Rights(within=OWN, made=MADE))))


MANY = RecordedGroup(part=ARTIFACTS.name, count=200, asked="a", found="f")
FOUND = RecordedIndex(part=ARTIFACTS.name, index="owner", value="x", keys=(Key("other", "secret"),))


@pytest.mark.spec("FW-674", "FW-633")
@pytest.mark.parametrize(
    ("reads", "saw"),
    [
        (RecordedReads(), True),
        (RecordedReads(groups=(MANY,)), False),
        (RecordedReads(summaries=(RecordedSummary(part=NODES.name, summary="gpus", group="x"),)), False),
        (RecordedReads(indexes=(FOUND,)), False),
        (RecordedReads(indexes=(FOUND.model_copy(update={"keys": ()}),)), True),
        (RecordedReads(indexes=(FOUND.model_copy(update={"part": SERVICES.name, "keys": (Key("team", "b"),)}),)), True),
        (RecordedReads(objects=(RecordedObject(part=CLUSTER_MODELS.name, name="secret-model"),)), False),
        (RecordedReads(objects=(RecordedObject(part=FACTS_PART, namespace="serving", name="1a2b"),)), True),
        (RecordedReads(objects=(RecordedObject(part="facts-3", namespace="serving", name="1a2b"),)), True),
        (RecordedReads(objects=(RecordedObject(part=NAMESPACES.name, name="team"),)), True),
        (RecordedReads(objects=(RecordedObject(part=NAMESPACES.name, name="other"),)), False),
    ],
)
def test_what_is_otherwise_today_is_reported_to_who_may_see_all_that_was_read(
    reads: RecordedReads, *, saw: bool
) -> None:
    record = RECORD.model_copy(update={"reads": reads, "plan": {}, "writes": ()})
    again = Replayed(StoredDecision(record, NOW, 1), Verdict.DIFFERENT, ("it differs",), beyond=("it asks more",))
    reported_here = decision_json(record, again, asked(Rights(within=OWN, made=MADE)))
    assert (reported_here["because"] == ["it differs"], reported_here["beyond"] == ["it asks more"]) == (saw, saw)
    if saw:
        linked = {one["what"] for one in reported_here["read"] if one["href"]}
        assert linked == set(), "who may not list Namespaces is not led to one, and facts have no page"
    everywhere = frozenset(one.resource for one in KNOWN)
    assert decision_json(record, again, asked(Rights(everywhere)))["because"] == ["it differs"]
    planned = record.model_copy(update={"plan": RECORD.plan})
    again = Replayed(StoredDecision(planned, NOW, 1), Verdict.DIFFERENT, ("children: secret-artifact",))
    assert because(again, Rights(within=OWN, made=MADE)) == ["it read objects that you may not see"]


@pytest.mark.spec("FW-674", "FW-633")
def test_a_story_names_only_those_writes_that_its_reader_may_see() -> None:
    reported_writes = deeds(of_a_viewer(RECORD, Rights(within=OWN, made=MADE)))
    assert reported_writes == "apply InferenceService chat"
