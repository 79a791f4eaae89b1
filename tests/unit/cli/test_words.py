"""What the words of a command mean, in which form it answers, and how it ends. No cluster."""

import json
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from support.asked import Objects
from support.builders import make
from typer.testing import CliRunner

from aim_cli.__main__ import app
from aim_cli.answer import Answer, Form, answered, columns, print_answer, render
from aim_cli.cluster.refs import KNOWN, JsonObject, Ref
from aim_cli.cluster.targets import Where, kind_called, target
from aim_cli.errors import CliError, Exit, TargetError, UnreachableError
from aim_domain import kind_names as resources
from aim_domain.kind_names import AIM_CLUSTER_MODEL, AIM_SERVICE
from aim_domain.kinds import KINDS
from controller_runtime.kube.config import ConfigError, default_namespace

HERE = Where(namespace="here")
EVIL = "a\x1b[2J\u202eb"


def test_kinds_are_named_as_the_platform_names_them() -> None:
    known = {kind.resource: kind for kind in KINDS}
    checked = 0
    for one in KNOWN:
        model = known.get(one.resource)
        if model is not None:
            theirs = (model.group, model.version, model.kind, model.plural, model.namespaced, model.short_names)
            assert theirs == (one.group, one.version, one.kind, one.plural, one.namespaced, one.short_names)
            checked += 1
    assert checked == len(KNOWN) - 1, "all but Deployments"


@pytest.mark.spec("FW-600")
@pytest.mark.parametrize(
    ("words", "where", "ref"),
    [
        (("aimsvc", "demo/chat"), HERE.__class__(), Ref(AIM_SERVICE, "demo", "chat")),
        (("AIMService", "chat"), HERE, Ref(AIM_SERVICE, "here", "chat")),
        (("aimservices.aim.eai.amd.com", "chat"), HERE, Ref(AIM_SERVICE, "here", "chat")),
        (("aimsvc/chat", None), HERE, Ref(AIM_SERVICE, "here", "chat")),
        (("aimsvc", "here/chat"), HERE, Ref(AIM_SERVICE, "here", "chat")),
        (("aimclustermodel", "m"), HERE, Ref(AIM_CLUSTER_MODEL, "", "m")),
        (("chat", None), HERE, Ref(AIM_SERVICE, "here", "chat")),
        (("demo/chat", None), HERE.__class__(), Ref(AIM_SERVICE, "demo", "chat")),
    ],
)
def test_objects_are_named_as_for_kubectl(words: tuple[str, str | None], where: Where, ref: Ref) -> None:
    assert target(*words, where) == ref


@pytest.mark.spec("FW-600")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("spaceship", "x"), "there is no kind 'spaceship'; known are aimartifacts"),
        (("aimservise", "x"), "there is no kind 'aimservise'; did you mean aimservice"),
        (("aimservise", None), "there is no kind 'aimservise'; did you mean aimservice"),
        (("aimservise/x", None), "there is no kind 'aimservise'; did you mean aimservice"),
        (("aimsvc", None), "name of the AIMService is missing"),
        (("aimsvc", "/chat"), "named as namespace/name"),
        (("aimsvc", "a/b/c"), "named as namespace/name"),
        (("aimclustermodel", "ns/m"), "named as name"),
        (("aimsvc", "there/chat"), "not in the namespace here"),
    ],
)
def test_words_that_name_nothing(words: tuple[str, str | None], said: str) -> None:
    with pytest.raises(TargetError, match=said):
        target(*words, HERE)


@pytest.mark.spec("FW-600")
def test_the_namespace_of_a_name_without_one_is_that_of_the_context(tmp_path: Path) -> None:
    file = tmp_path / "config"
    contexts = [{"name": "a", "context": {"cluster": "c", "namespace": "team"}}, {"name": "b", "context": {}}]
    file.write_text(yaml.safe_dump({"current-context": "a", "contexts": contexts}), encoding="utf-8")
    assert [default_namespace(str(file), context) for context in (None, "b")] == ["team", "default"]
    assert default_namespace(str(tmp_path / "none")) == "default"
    with pytest.raises(ConfigError, match="context 'c' is missing"):
        default_namespace(str(file), "c")
    assert Where(str(file)).scope(kind_called("pods")) == "team"
    assert Where(str(file), everywhere=True).scope(kind_called("pods")) == ""


@pytest.mark.spec("FW-601")
def test_data_are_the_same_in_both_forms_and_hold_nothing_that_a_terminal_obeys() -> None:
    data: JsonObject = {"name": EVIL, "list": [1, True, None]}
    for form, read in ((Form.JSON, json.loads), (Form.YAML, yaml.safe_load)):
        text = render(data, form)
        assert read(text) == data
        assert text.replace("\n", "").isprintable()
        assert text.isascii()


@pytest.mark.spec("FW-601", "FW-554")
def test_lines_and_remarks_hold_nothing_that_a_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    print_answer(Answer({}, (EVIL, *columns(("NAME", "X"), [(EVIL, "1")])), remarks=(EVIL,)), Form.TABLE)
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
    assert said.out.splitlines()[1:] == ["NAME      X", "a [2J b   1"]
    assert said.err == "a [2J b\n"


@pytest.mark.spec("FW-602")
@pytest.mark.parametrize(("error", "code"), [(TargetError("x"), 2), (UnreachableError(EVIL), 4)])
def test_an_error_is_one_line_and_its_code(error: CliError, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    def ask() -> Answer:
        raise error

    assert answered(ask, Form.JSON) == code
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n"), "\x1b" in said.err) == ("", 1, False)


@pytest.mark.spec("FW-602")
def test_an_answer_ends_with_its_own_code() -> None:
    assert answered(lambda: Answer([], (), Exit.ABSENT), Form.TABLE) == 3


def test_the_cluster_of_the_tests_selects_as_an_api_server() -> None:
    one = make(resources.POD, "p", namespace="a", labels={"x": "1"})
    known = Objects((resources.POD, one))
    assert known.search(resources.POD, "a", "x=1", "metadata.name=p") == [one]
    assert known.search(resources.POD, "a", "x=2") == known.search(resources.POD, "b") == []


@pytest.mark.spec("FW-696")
def test_the_release_is_reported() -> None:
    reported = CliRunner().invoke(app, ["--version"])
    assert (reported.exit_code, reported.output) == (0, f"aim {version('aim-cli')}\n")
