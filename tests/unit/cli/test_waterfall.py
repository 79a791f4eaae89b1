"""The life of an object as bars (FW-650)."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from aim_cli.log.report import Bar, drawn, is_ready, page_of
from controller_runtime import JsonObject, Key
from controller_runtime.testing import NOW


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


SERVICE = Bar("AIMService", Key("demo", "chat"), NOW, after(4), "Running", (after(2),))
CACHE = Bar("AIMTemplateCache", Key("demo", "chat-cache"), after(1), after(3), "Ready")
WAITING = Bar("AIMArtifact", Key("demo", "weights"), after(1), None, "Progressing")


@pytest.mark.spec("FW-650")
def test_bars_go_from_creation_to_readiness() -> None:
    scale, service, cache, waiting = drawn([SERVICE, CACHE, WAITING], 46 + 24 + 41)
    assert (scale.split()[0], scale.endswith("4.00 s")) == ("0", True)
    bar = service[48 : 48 + 41]
    assert (bar[0], bar[20], bar[40], service.endswith("Running 4.00 s")) == ("─", "•", "●", True)
    bar = cache[48 : 48 + 41]
    assert (bar[:10].strip(), bar[10], bar[30], bar[31:].strip()) == ("", "─", "●", "")
    assert waiting[48 : 48 + 41][-1] == "▸"
    assert waiting.endswith("Progressing")
    assert drawn([], 100) == []


@pytest.mark.spec("FW-650")
def test_the_picture_ends_with_the_last_readiness_and_not_with_later_writes() -> None:
    lasting = replace(SERVICE, writes=(after(2), after(3600)))
    gone = Bar("HTTPRoute", Key("demo", "chat-1"), after(1), after(2), "deleted")
    scale, service, route = drawn([lasting, gone], 46 + 24 + 41)
    assert scale.endswith("4.00 s")
    assert (service[48 + 20], service[48 + 40]) == ("•", "●")
    assert route.endswith("deleted, was ready after 2.00 s")
    assert page_of("x", [lasting, gone]).count('class="write"') == 1
    assert drawn([WAITING, replace(CACHE, writes=(after(9),))], 111)[0].endswith("8.00 s"), "it is not ready yet"


@pytest.mark.spec("FW-650")
def test_a_page_shows_names_as_text() -> None:
    hostile = Bar("AIMArtifact", Key("demo", "<script>x</script>"), NOW, None, "<b>\x1b[31m")
    page = page_of("aimservice demo/<i>", [SERVICE, hostile])
    assert "<script" not in page
    assert "<b>" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;" in page
    assert "http" not in page, "it needs no network"
    assert 'style="left:0.00%;width:100.00%"' in page


@pytest.mark.spec("FW-650")
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"status": "Running"}, True),
        ({"status": "Starting"}, False),
        ({"phase": "Bound"}, True),
        ({"conditions": [{"type": "Complete", "status": "True"}]}, True),
        ({"conditions": [{"type": "Ready", "status": "False"}]}, False),
        ({"parents": [{"conditions": [{"type": "Accepted", "status": "True"}]}]}, True),
        ({"parents": []}, False),
        ({}, False),
    ],
)
def test_every_kind_says_when_it_is_ready(status: JsonObject, expected: bool) -> None:
    assert is_ready({"status": status}) is expected
