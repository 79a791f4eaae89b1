"""The page on how to add a service or a kind names files in which each service and each kind stands."""

import re
from pathlib import Path
from typing import Any, Final

import pytest

from aim_domain.kinds import OWN_KINDS
from aim_domain.services import SERVICES, package_of
from controller_runtime import Kind

ROOT: Final = Path(__file__).parents[3]
MOST_EDITS: Final = 15
"""Files for a service with a kind, before the decisions, pages and reasons of its own."""
PAGE: Final = (ROOT / "docs/development/add-a-service.md").read_text("utf-8")


def rows(title: str) -> list[str]:
    """The files of a table."""
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


@pytest.mark.parametrize("file", rows("A service"))
@pytest.mark.parametrize("service", SERVICES)
def test_every_service_stands_in_each_file_of_the_page(service: str, file: str) -> None:
    text = (ROOT / file.format(service=service, package=package_of(service))).read_text("utf-8")
    assert "{" in file or service in text


@pytest.mark.parametrize("file", rows("A kind"))
@pytest.mark.parametrize("kind", OWN_KINDS, ids=str)
def test_every_kind_stands_in_each_file_of_the_page(kind: Kind[Any], file: str) -> None:
    module = kind.model.__module__.rpartition(".")[2]
    text = (ROOT / file.format(module=module)).read_text("utf-8")
    assert re.search(rf"\b({kind.kind}|{re.sub(r'(?<=[a-z])(?=[A-Z])|(?<=AIM)', '_', kind.kind).upper()})\b", text)


def test_a_service_with_a_kind_needs_few_files() -> None:
    assert len({*rows("A service"), *rows("A kind")}) <= MOST_EDITS
