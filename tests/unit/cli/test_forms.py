"""The forms of an answer: whole tables, names for the next command, values that a template selects."""

import pytest
from support.asked import Objects
from support.builders import condition, make
from typer.testing import CliRunner

from aim_cli.__main__ import app
from aim_cli.answer import Answer, Form, print_answer
from aim_cli.cluster.refs import JsonObject, Ref
from aim_cli.cluster.targets import Where, target
from aim_cli.installation.overview import overview
from aim_cli.objects.caches import caches
from aim_cli.objects.tree import answer as tree_answer
from aim_cli.objects.tree import tree
from aim_cli.why.command import answer as why_answer
from aim_cli.why.command import why
from aim_domain.kind_names import AIM_ARTIFACT, AIM_MODEL, AIM_SERVICE, KindName
from controller_runtime.testing import NOW

TEAM = "team"


def failed(kind: KindName, name: str, *others: JsonObject, **spec: object) -> tuple[KindName, JsonObject]:
    reported = [condition("ModelReady", False, "Because", f"{name} is bad", NOW), *others]
    return kind, make(kind, name, namespace=TEAM, spec=spec, status={"status": "Failed", "conditions": reported})


def printed(capsys: pytest.CaptureFixture[str], answer: Answer, form: Form) -> tuple[list[str], list[str]]:
    print_answer(answer, form)
    out, err = capsys.readouterr()
    return out.splitlines(), err.splitlines()


@pytest.mark.spec("FW-880", "FW-868")
def test_status_wide_has_a_line_for_each_object(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"chat-{number:02}" for number in range(25)]
    found = overview(Objects(*(failed(AIM_SERVICE, name) for name in names)), "", NOW)
    table, _ = printed(capsys, found, Form.TABLE)
    assert table[0].startswith(f"AIMService {TEAM}/chat-00 and 24 more are Failed")
    wide, _ = printed(capsys, found, Form.WIDE)
    assert [line.split()[1] for line in wide[:25]] == [f"{TEAM}/{name}" for name in names]
    assert wide[25:] == table[1:], "kinds, GPUs and leaders are in both"


@pytest.mark.spec("FW-880")
def test_names_are_what_the_next_command_takes(capsys: pytest.CaptureFixture[str]) -> None:
    known = Objects(failed(AIM_MODEL, "mine"), failed(AIM_SERVICE, "chat"))
    names, errors = printed(capsys, overview(known, "", NOW), Form.NAME)
    assert (names, errors) == ([f"aimservice/{TEAM}/chat", f"aimmodel/{TEAM}/mine"], [])
    assert [target(one, None, Where(namespace=None)) for one in names] == [
        Ref(AIM_SERVICE, TEAM, "chat"),
        Ref(AIM_MODEL, TEAM, "mine"),
    ]


@pytest.mark.spec("FW-880")
def test_without_a_name_standard_error_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    well = make(AIM_MODEL, "well", namespace=TEAM, spec={}, status={"status": "Ready"})
    assert printed(capsys, overview(Objects((AIM_MODEL, well)), "", NOW), Form.NAME) == (
        [],
        ["nothing needs attention"],
    )
    absent = Ref(AIM_SERVICE, TEAM, "absent")
    for form in (Form.NAME, Form.DOT):
        assert printed(capsys, tree_answer(Objects(), None, absent), form) == ([], [f"{absent} does not exist"])


@pytest.mark.spec("FW-880")
def test_why_wide_follows_each_cause_to_the_object(capsys: pytest.CaptureFixture[str]) -> None:
    more = condition("RuntimeConfigReady", False, "Otherwise", "the config is bad", NOW)
    known = Objects(failed(AIM_SERVICE, "chat", more))
    found = why_answer([why(known, Ref(AIM_SERVICE, TEAM, "chat"))], known, NOW)
    table, _ = printed(capsys, found, Form.TABLE)
    wide, _ = printed(capsys, found, Form.WIDE)
    [also] = [place for place, line in enumerate(wide) if line.startswith("also ")]
    assert len(table) == also + 1
    assert wide[also + 1].startswith("do ")
    assert printed(capsys, found, Form.NAME)[0] == [f"aimservice/{TEAM}/chat"]


@pytest.mark.spec("FW-880")
def test_cache_wide_has_claim_and_source(capsys: pytest.CaptureFixture[str]) -> None:
    artifact = make(AIM_ARTIFACT, "weights", namespace=TEAM, spec={"sourceUri": "hf://acme/tiny"})
    found = caches(Objects((AIM_ARTIFACT, artifact)), Where(everywhere=True), NOW)
    assert "hf://acme/tiny" not in "\n".join(printed(capsys, found, Form.TABLE)[0])
    wide, _ = printed(capsys, found, Form.WIDE)
    assert wide[0].split()[-2:] == ["CLAIM", "SOURCE"]
    assert wide[1].split()[-1] == "hf://acme/tiny"
    assert printed(capsys, found, Form.NAME)[0] == [f"aimartifact/{TEAM}/weights"]


@pytest.mark.spec("FW-880")
def test_tree_names_each_object_once(capsys: pytest.CaptureFixture[str]) -> None:
    kind, service = failed(AIM_SERVICE, "chat", model={"name": "mine"})
    service["status"]["resolvedModel"] = {"name": "mine", "namespace": TEAM, "kind": "AIMModel"}
    known, root = Objects((kind, service), failed(AIM_MODEL, "mine")), Ref(AIM_SERVICE, TEAM, "chat")
    found = tree_answer(known, tree(known, root), root)
    assert printed(capsys, found, Form.NAME)[0] == [f"aimservice/{TEAM}/chat", f"aimmodel/{TEAM}/mine"]
    assert printed(capsys, found, Form.DOT)[0][0] == "digraph aim {"


@pytest.mark.spec("FW-881")
def test_a_template_selects_from_the_data(capsys: pytest.CaptureFixture[str]) -> None:
    found = overview(Objects(failed(AIM_SERVICE, "chat")), "", NOW)
    template = '{range .attention[*]}{.object.namespace}/{.object.name} is {.state}{"\\n"}{end}'
    assert printed(capsys, found, Form("jsonpath", template))[0] == [f"{TEAM}/chat is Failed"]


@pytest.mark.spec("FW-602")
@pytest.mark.parametrize("words", ["status", "doctor", "tree aimsvc a/b", "status -o jsonpath={.x}"])
def test_the_forms_of_a_command_are_taken(words: str) -> None:
    ended = CliRunner().invoke(app, [*words.split(), "--kubeconfig", "/nowhere"])
    assert ended.exit_code == 4, "only the kubeconfig is missing"


@pytest.mark.spec("FW-880", "FW-881", "FW-602")
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["status", "-o", "wid"], "try wide"),
        (["doctor", "-o", "name"], "is none of table, json, yaml, jsonpath=TEMPLATE"),
        (["status", "-o", "jsonpath={.x"], "a brace is not closed"),
        (["status", "-o", "jsonpath"], "is empty"),
    ],
)
def test_a_form_that_a_command_lacks_is_named_before_a_cluster_is_asked(words: list[str], why: str) -> None:
    ended = CliRunner().invoke(app, [*words, "--kubeconfig", "/nowhere"], env={"COLUMNS": "200"})
    assert ended.exit_code == 2
    assert why in " ".join(ended.output.replace("│", " ").split())
