"""Lines of an answer on a terminal."""

import pytest

from aim_cli import answer
from aim_cli.answer import Answer, Form, answered, for_terminal
from aim_cli.errors import Exit

CAUSE = "because Pod team/chat-1: CrashLoopBackOff: container main keeps crashing"


@pytest.mark.spec("FW-866")
def test_a_line_is_folded_beside_its_first_word() -> None:
    assert for_terminal(CAUSE, 48, colour=False).splitlines() == [
        "because Pod team/chat-1: CrashLoopBackOff:",
        "        container main keeps crashing",
    ]


@pytest.mark.spec("FW-866")
def test_a_cause_is_red_and_what_to_do_is_green() -> None:
    assert for_terminal(CAUSE, 200, colour=True) == f"\x1b[31m{CAUSE}\x1b[0m"
    remedy = "do      read why it ends: kubectl logs chat-1"
    assert for_terminal(remedy, 200, colour=True) == f"\x1b[32m{remedy}\x1b[0m"


@pytest.mark.spec("FW-866")
@pytest.mark.parametrize("line", ["AIMService team/chat is Running", "do", "NAME   STATUS", "doing   nothing"])
def test_other_lines_stay(line: str) -> None:
    assert for_terminal(line, 10, colour=True) == line


@pytest.mark.spec("FW-866")
def test_a_command_and_a_name_are_never_broken() -> None:
    name = "a-name-that-is-longer-than-the-terminal"
    command = f"do      have it made again: kubectl delete {name}"
    assert for_terminal(command, 24, colour=False) == command
    assert name in for_terminal(f"so      AIMArtifact {name}", 24, colour=False).splitlines()[-1]


@pytest.mark.spec("FW-879")
def test_who_watches_reads_what_changes_until_nothing_is_in_the_way(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer, "_PAUSE", 0.0)
    known = ["no token", "no token", "no volume", ""]
    given = iter(Answer({"why": one}, (one or "well",), Exit.FOUND if one else Exit.WELL) for one in known)
    assert answered(lambda: next(given), Form.TABLE, watch=True) is Exit.WELL
    assert capsys.readouterr().out.splitlines() == ["no token", "", "no volume", "", "well"]
    once = iter([Answer({}, ("no token",), Exit.FOUND)])
    assert answered(lambda: next(once), Form.TABLE) is Exit.FOUND
    gone = iter([Answer({}, ("no token",), Exit.FOUND), Answer({"gone": True}, ("gone",), Exit.ABSENT)])
    assert answered(lambda: next(gone), Form.TABLE, watch=True) is Exit.ABSENT
