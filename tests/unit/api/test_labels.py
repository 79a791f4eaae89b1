"""The keys in `labels` against the tables of framework.md."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from support.crd_tables import SPECIFICATION

from aim_domain import labels

FRAMEWORK = SPECIFICATION.with_name("framework.md").read_text(encoding="utf-8")
KEYS = {value for name, value in vars(labels).items() if name.isupper()}


def _first_cells(start: str, end: str) -> Iterator[str]:
    section = FRAMEWORK[FRAMEWORK.index(start) : FRAMEWORK.index(end)]
    for line in section.splitlines():
        if line.startswith("| `"):
            yield line.split("|")[1]


@pytest.mark.spec("FW-250")
def test_label_keys() -> None:
    documented = {key for cell in _first_cells("**FW-250**", "**FW-251**") for key in re.findall(r"`([^`]+)`", cell)}
    assert len(documented) > 20
    assert {labels.PREFIX + key for key in documented} <= KEYS


@pytest.mark.spec("FW-253")
def test_annotation_keys() -> None:
    cells = list(_first_cells("**FW-253**", "**FW-254**"))
    documented = {key.replace("…/", labels.PREFIX) for cell in cells for key in re.findall(r"`([^`]+)`", cell)}
    assert len(documented) > 15
    assert documented <= KEYS


@pytest.mark.spec("FW-180", "FW-251", "FW-252", "FW-254")
def test_other_keys() -> None:
    assert {
        "aim.eai.amd.com/template-cache-cleanup",
        "aim.eai.amd.com/artifactcleanup",
        "aim.eai.amd.com/artifact",
        "template-created",
        "app.kubernetes.io/component",
        "serving.kserve.io/inferenceservice",
        "job-name",
        "beta.amd.com/gpu.vram",
    } <= KEYS
