"""The page of conditions and reasons knows every one that the code tells, and where its remedy stands."""

import re
from pathlib import Path

import pytest
from support.reported_reasons import all_words, reported_reasons

from aim_cli.why.remedies import REMEDIES
from aim_domain.kinds import OWN_KINDS
from aim_packaging.reference import reasons_page
from aim_packaging.reference.reason_catalogue import CONDITIONS, REASONS

DOCS = Path(__file__).parents[3] / "docs"
ALL = [reason for reasons in REASONS.values() for reason in reasons]
_SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


@pytest.mark.spec("FW-692")
def test_every_reason_that_the_code_tells_is_explained_once() -> None:
    names = [reason.name for reason in ALL]
    assert len(names) == len(set(names))
    assert {name: files for name, files in reported_reasons().items() if name not in names} == {}


@pytest.mark.spec("FW-692")
def test_no_reason_is_explained_that_nobody_tells() -> None:
    # A prefix makes two of these of one word.
    words = all_words()
    assert {one.name for one in ALL if one.name not in words and one.name.removeprefix("Cluster") not in words} == set()


@pytest.mark.spec("FW-692")
def test_every_condition_of_every_kind_is_explained() -> None:
    reported = {type_ for kind in OWN_KINDS for type_ in reasons_page.conditions_of(kind.kind)}
    assert reported == CONDITIONS.keys()
    shown = reasons_page.page()
    assert [type_ for type_ in reported if f"| `{type_}` |" not in shown] == []
    assert [one.name for one in ALL if f"| `{one.name}` |" not in shown] == []


@pytest.mark.spec("FW-692")
def test_a_reason_with_a_remedy_leads_to_it() -> None:
    page = (DOCS / "troubleshooting.md").read_text("utf-8")
    sections = {
        f"troubleshooting.md#{title.lower().replace(' ', '-')}": set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
        for title, text in _SECTION.findall(page)
    }
    # Some of Kubernetes' own never become a condition.
    known = [reason for reason in ALL if reason.name in REMEDIES]
    assert {one.name for one in known} >= {"AuthError", "GPUNotAvailable", "PathConflict", "WaitingForEviction"}
    shown = reasons_page.page()
    for reason in known:
        target = re.search(r"\(\.\./([^)]+)\)", reason.remedy)
        assert target is not None, reason
        assert reason.name in sections[target[1]], reason
        assert re.search(rf"^\| `{reason.name}` \|.*{re.escape(reason.remedy)} \|$", shown, re.MULTILINE), reason
