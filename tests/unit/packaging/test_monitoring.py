"""Alerts and dashboards use metrics that there are, and every alert has a runbook."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from aim_domain.metric_catalogue import ALL
from aim_domain.services import SERVICES
from aim_packaging import scraping
from aim_packaging.alerts import ALERTS, RUNBOOKS, rules
from aim_packaging.dashboards import DASHBOARDS, Dashboard, dashboard_json

ROOT: Final = Path(__file__).parents[3]
OF_THE_TARGET: Final = {"namespace", "pod", "job", "instance", "exported_namespace", "le"}
SERIES: Final[Mapping[str, frozenset[str]]] = {
    "up": frozenset(),
    **{series: frozenset(one.labels) for one in ALL for series in one.series},
}
WORDS: Final = {
    *("sum", "max", "by", "rate", "increase", "unless", "or", "absent", "label_replace", "histogram_quantile"),
    *("namespace", "le"),
    "__rate_interval",
}


def queries() -> Iterator[tuple[str, str]]:
    for alert in ALERTS:
        yield alert.name, alert.expression()
    for dashboard in DASHBOARDS:
        for panel in dashboard.panels:
            for query in panel.queries.values():
                yield f"{dashboard.name}: {panel.title}", query


def test_of_every_query_metrics_and_labels_exist() -> None:
    seen: set[str] = set()
    for place, query in queries():
        matched = re.findall(r"(\w+)(?:=~|=|!=|!~)\"", query)
        grouped = [one for some in re.findall(r"by \(([^)]*)\)", query) for one in some.split(", ")]
        bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|by \([^)]*\)|\"[^\"]*\"", " ", query)
        used = {one for one in re.findall(r"[a-z_][a-z_0-9]+", bare) if one not in WORDS}
        assert used, place
        assert used <= SERIES.keys(), f"{place}: {used - SERIES.keys()}"
        known = OF_THE_TARGET.union(*(SERIES[one] for one in used))
        assert {*matched, *grouped} <= known, f"{place}: {({*matched, *grouped}) - known}"
        seen |= used
    asked = ("aim_queue_oldest_seconds", "aim_publisher_lag_seconds", "aim_part_objects", "aim_part_age_seconds")
    assert {*asked, "aim_decisions_total", "aim_api_requests_total", "aim_artifact_downloads"} <= seen


@pytest.mark.spec("FW-711")
def test_every_query_selects_the_targets_of_the_platform() -> None:
    for place, query in queries():
        known = sorted({series for series in SERIES if re.search(rf"\b{series}\b", query)}, key=len)
        assert known, place
        for series in known:
            assert len(re.findall(rf"\b{series}\b", query)) == len(re.findall(rf"\b{series}{{[^}}]*job=~", query)), (
                place
            )


@pytest.mark.spec("FW-711")
@pytest.mark.parametrize(
    ("job", "ours"),
    [
        ("aim-engine-serving-metrics", True),
        ("aim-system/aim-engine-serving", True),
        ("aim-engine-serving", True),
        ("gpu-operator-metrics", False),
        ("aim-engineer", False),
        ("not-aim-engine-serving", False),
    ],
)
def test_which_jobs_are_ours(job: str, ours: bool) -> None:
    assert (re.fullmatch(scraping.JOBS, job) is not None) is ours


@pytest.mark.spec("FW-711")
def test_each_service_that_is_gone_is_noticed_under_each_of_its_jobs() -> None:
    (absent,) = [one for one in ALERTS if one.name == "AIMEngineAbsent"]
    found = dict(re.findall(r"job=~\"([^\"]*)\"}\), \"service\", \"([\w-]+)\"", absent.expression()))
    for service in SERVICES:
        (jobs,) = [job for job, named in found.items() if named == service]
        for job in (f"aim-engine-{service}-metrics", f"aim-system/aim-engine-{service}", f"aim-engine-{service}"):
            assert re.fullmatch(jobs, job)
            assert [one for one in found if re.fullmatch(one, job)] == [jobs]


@pytest.mark.spec("FW-561")
def test_an_alert_says_what_is_so_and_names_its_runbook() -> None:
    assert len({one.name for one in ALERTS}) == len(ALERTS)
    for alert in ALERTS:
        assert "{{" not in alert.expression()
        labels = set(re.findall(r"\$labels\.(\w+)", alert.summary))
        grouped = re.findall(r"by \(([^)]*)\)", alert.expression())
        made = set(re.findall(r"label_replace\(.*?, \"(\w+)\"", alert.expression()))
        left = made or (set(grouped[0].split(", ")) if grouped else OF_THE_TARGET)
        assert labels <= left, alert.name
    groups: Any = rules()["groups"]
    (group,) = groups
    assert {one["annotations"]["runbook_url"] for one in group["rules"]} == {
        f"{RUNBOOKS}#{one.anchor}" for one in ALERTS
    }


@pytest.mark.spec("FW-561")
def test_each_alert_has_a_runbook_and_each_runbook_an_alert() -> None:
    text = (ROOT / RUNBOOKS).read_text()
    sections = {one.partition("\n")[0]: one.partition("\n")[2].strip() for one in text.split("\n## ")[1:]}
    assert list(sections) == [one.name for one in ALERTS]
    assert all(len(words) > 200 for words in sections.values())
    anchors = {one.anchor for one in ALERTS}
    assert set(re.findall(r"\(#(\w+)\)", text)) <= anchors


@pytest.mark.spec("FW-562")
@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda one: one.name)
def test_a_dashboard_is_what_grafana_reads(dashboard: Dashboard) -> None:
    page = json.loads(dashboard_json(dashboard))
    assert {one["name"] for one in page["templating"]["list"]} == {"datasource", "namespace"}
    panels = page["panels"]
    assert [one["title"] for one in panels] == [one.title for one in dashboard.panels]
    assert len({one["id"] for one in panels}) == len({(one["gridPos"]["x"], one["gridPos"]["y"]) for one in panels})
    assert all(target["expr"] for one in panels for target in one["targets"])


@pytest.mark.spec("FW-560")
def test_every_metric_is_reported_once_with_its_meaning() -> None:
    names = [one.name for one in ALL]
    assert len(set(names)) == len(names)
    for one in ALL:
        assert one.meaning[0].isupper() or one.meaning[0].isdigit(), one.name
        assert one.name.endswith("_total") == (one.kind == "counter"), one.name
