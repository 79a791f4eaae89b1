"""The program that `helm test` runs in a pod."""

import contextlib
import io
import re
import textwrap
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest

_TEMPLATE = Path(__file__).parents[3] / "deploy/charts/aim-engine/templates/tests/test-ready.yaml"
_PROGRAM = re.compile(r"^ +- \|\n(.*?)^ +resources:", re.MULTILINE | re.DOTALL)
_SERVICES = re.compile(r"\{\{ include \"aim\.services\" \. \}\}")


@dataclass(frozen=True)
class Answer:
    status: int = 200


def said(monkeypatch: pytest.MonkeyPatch, refusals: int) -> str:
    """What it prints where so many requests are refused before one is answered; each takes a second."""
    passed, errors = 0.0, iter(range(refusals))

    def urlopen(url: str, timeout: float) -> contextlib.AbstractContextManager[Answer]:
        nonlocal passed
        passed += 1
        if next(errors, None) is not None:
            raise urllib.error.URLError("refused")
        return contextlib.nullcontext(Answer())

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    monkeypatch.setattr(time, "monotonic", lambda: passed)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    found = _PROGRAM.search(_TEMPLATE.read_text(encoding="utf-8"))
    assert found
    program = _SERVICES.sub("serving routing", textwrap.dedent(found[1]))
    program = program.replace('{{ include "aim.fullname" $ }}', "aim-engine")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, str(_TEMPLATE), "exec"), {})
    return printed.getvalue()


@pytest.mark.spec("FW-546")
def test_a_service_is_asked_again_while_policies_and_addresses_are_not_in_force(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert said(monkeypatch, refusals=5) == "serving 200\nrouting 200\n"


@pytest.mark.spec("FW-546")
def test_a_service_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match=r"serving not ready: .*refused"):
        said(monkeypatch, refusals=100)
