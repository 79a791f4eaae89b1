"""One decision as a page, for who may see what of it."""

import pytest
from support.builders import NOW

from aim_cli.console.access import Rights
from aim_cli.console.decision import told
from aim_cli.console.log_pages import Asked
from aim_cli.console.templating import render
from aim_cli.log_targets import target_of
from aim_cli.refs import JsonObject, Ref
from aim_cli.resources import AIM_ARTIFACT, AIM_CLUSTER_MODEL, AIM_SERVICE, INFERENCE_SERVICE
from aim_domain.parts import ARTIFACTS, CLUSTER_MODELS, INFERENCE_SERVICES, SERVICES
from controller_runtime.bus.decision import DecisionRecord, RecordedWrite
from controller_runtime.bus.history import StoredDecision
from controller_runtime.bus.recorded import RecordedGroup, RecordedIndex, RecordedObject, RecordedReads
from controller_runtime.replay import Replayed, Verdict

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


def page(rights: Rights, verdict: Verdict = Verdict.SAME, *differences: str) -> JsonObject:
    target = target_of(CHAT)
    assert target is not None
    again = Replayed(StoredDecision(RECORD, NOW, 1), verdict, differences)
    return told(RECORD, again, Asked(CHAT, target, rights))


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
def test_nothing_is_told_of_objects_that_the_viewer_may_not_see() -> None:
    content = page(Rights(within=OWN, made=MADE), Verdict.DIFFERENT, "children: secret-artifact")
    assert (content["unseen"], content["hidden"]) == (1, 2)
    assert content["because"] == ["it read objects that you may not see"]
    text = shown(content)
    assert "secret" not in text
    assert "InferenceService team/chat" in text
    assert "and 1 that you may not see" in text


@pytest.mark.spec("FW-674", "FW-554")
def test_what_users_wrote_stays_text_on_the_page_of_a_decision() -> None:
    text = shown(page(Rights(within=OWN, made=MADE)))
    assert "<script>alert" not in text
    assert "\x1b" not in text
