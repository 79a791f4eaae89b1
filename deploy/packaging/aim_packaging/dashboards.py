"""The Grafana dashboards, as JSON (FW-562). A panel is a title, a unit and queries; its place follows from its turn."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aim_packaging.scraping import OWN
from controller_runtime import JsonObject

_WIDTH: Final = 8
_HEIGHT: Final = 8
_ROW: Final = 24
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_PODS: Final = f'namespace="$namespace",{OWN}'
_RATE: Final = "$__rate_interval"


@dataclass(frozen=True, slots=True)
class Panel:
    """A graph over time.

    Attributes:
        queries: legend to PromQL.
    """

    title: str
    unit: str
    queries: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A page of panels."""

    name: str
    title: str
    panels: Sequence[Panel]


def _mean(metric: str, by: str) -> str:
    return (
        f"sum by ({by}) (rate({metric}_sum{{{_PODS}}}[{_RATE}]))"
        f" / sum by ({by}) (rate({metric}_count{{{_PODS}}}[{_RATE}]))"
    )


def _rate(metric: str, by: str, labels: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{{{_PODS}{labels}}}[{_RATE}]))"


def _max(metric: str, by: str, labels: str = "") -> str:
    return f"max by ({by}) ({metric}{{{_PODS}{labels}}})"


def _quantile(metric: str, by: str) -> str:
    return f"histogram_quantile(0.99, sum by ({by}, le) (rate({metric}_bucket{{{_PODS}}}[{_RATE}])))"


DASHBOARDS: Final = (
    Dashboard(
        "controllers",
        "AIM Engine / Controllers",
        (
            Panel("Leaders", "none", {"{{name}}": f"sum by (name) (leader_election_master_status{{{_PODS}}})"}),
            Panel(
                "Objects by status", "none", {"{{controller}} {{status}}": _max("aim_objects", "controller, status")}
            ),
            Panel("Paused objects", "none", {"{{part}}": _max("aim_paused_objects", "part")}),
            Panel(
                "Passes",
                "ops",
                {"{{controller}} {{result}}": _rate("controller_runtime_reconcile_total", "controller, result")},
            ),
            Panel(
                "Decisions by reason",
                "ops",
                {"{{controller}} {{reason}}": _rate("aim_decisions_total", "controller, reason")},
            ),
            Panel(
                "Duration of passes, 99 %",
                "s",
                {"{{controller}}": _quantile("controller_runtime_reconcile_time_seconds", "controller")},
            ),
            Panel("Objects that wait", "none", {"{{name}}": _max("workqueue_depth", "name")}),
            Panel("Longest wait", "s", {"{{name}}": _max("aim_queue_oldest_seconds", "name")}),
            Panel(
                "Oldest pass that runs",
                "s",
                {"{{name}}": _max("workqueue_longest_running_processor_seconds", "name")},
            ),
            Panel("Tried again", "ops", {"{{name}}": _rate("workqueue_retries_total", "name")}),
            Panel(
                "Requests to the API server",
                "ops",
                {"{{verb}} {{resource}}": _rate("aim_api_requests_total", "verb, resource")},
            ),
            Panel("Answers of the API server", "ops", {"{{code}}": _rate("rest_client_requests_total", "code")}),
            Panel(
                "Duration of requests, 99 %",
                "s",
                {"{{verb}}": _quantile("rest_client_request_duration_seconds", "verb")},
            ),
        ),
    ),
    Dashboard(
        "events",
        "AIM Engine / Event path",
        (
            Panel(
                "From a change to its pass, mean of each hop",
                "s",
                {
                    "watch to broker {{pod}}": _mean("aim_publish_seconds", "pod"),
                    "broker to service {{pod}}": _mean("aim_event_delivery_seconds", "pod"),
                    "wait for the pass {{pod}}": _mean("workqueue_queue_duration_seconds", "pod"),
                    "pass {{pod}}": _mean("workqueue_work_duration_seconds", "pod"),
                },
            ),
            Panel("Publisher lag", "s", {"{{part}}": _max("aim_publisher_lag_seconds", "part")}),
            Panel("Versions under way", "none", {"{{part}}": _max("aim_publisher_waiting", "part")}),
            Panel("Not confirmed since", "s", {"{{pod}} {{part}}": _max("aim_part_age_seconds", "pod, part")}),
            Panel("Kinds that are fresh", "none", {"{{pod}}": f"sum by (pod) (aim_part_fresh{{{_PODS}}})"}),
            Panel("Objects known", "none", {"{{part}}": _max("aim_part_objects", "part")}),
            Panel(
                "Messages",
                "ops",
                {"{{pod}}": f"sum by (pod) (rate(aim_projection_messages_total{{{_PODS}}}[{_RATE}]))"},
            ),
            Panel(
                "Snapshots",
                "none",
                {
                    "all {{pod}}": _max("aim_projection_generations_total", "pod"),
                    "of one kind {{pod}}": _max("aim_projection_restaged_total", "pod"),
                },
            ),
            Panel("Repairs", "none", {"{{part}}": _max("aim_publisher_repaired_total", "part")}),
            Panel(
                "Size of the streams",
                "bytes",
                {
                    "{{stream}}": _max("aim_stream_bytes", "stream"),
                    "limit of {{stream}}": _max("aim_stream_limit_bytes", "stream"),
                },
            ),
            Panel("Reach of the streams", "s", {"{{stream}}": _max("aim_stream_reach_seconds", "stream")}),
            Panel(
                "Records of decisions",
                "none",
                {"waiting": _max("aim_decisions_waiting", "pod"), "lost": _max("aim_decisions_lost_total", "pod")},
            ),
        ),
    ),
    Dashboard(
        "models",
        "AIM Engine / Models and weights",
        (
            Panel("Models of sources", "none", {"{{source}}": _max("aim_model_source_available_models", "source")}),
            Panel("Syncs", "ops", {"{{result}}": _rate("aim_model_syncs_total", "result")}),
            Panel(
                "Requests to registries",
                "ops",
                {"{{host}} {{status}}": _rate("aim_registry_requests_total", "host, status")},
            ),
            Panel("Discovery Jobs", "none", {"running": _max("aim_discovery_jobs_active", "pod")}),
            Panel(
                "Downloads", "none", {"{{exported_namespace}}": _max("aim_artifact_downloads", "exported_namespace")}
            ),
            Panel(
                "Left to download",
                "bytes",
                {"{{exported_namespace}}": _max("aim_artifact_download_missing_bytes", "exported_namespace")},
            ),
            Panel(
                "Storage of weights",
                "bytes",
                {
                    "{{exported_namespace}}": _max("aim_artifact_allocated_bytes", "exported_namespace"),
                    "limit of {{exported_namespace}}": _max("aim_artifact_limit_bytes", "exported_namespace"),
                    "limit of the cluster": _max("aim_artifact_cluster_limit_bytes", "pod"),
                },
            ),
        ),
    ),
)


def dashboard_json(dashboard: Dashboard) -> str:
    """As Grafana reads it."""
    panels = [_panel(number, one) for number, one in enumerate(dashboard.panels)]
    page: JsonObject = {
        "uid": f"aim-engine-{dashboard.name}",
        "title": dashboard.title,
        "tags": ["aim-engine"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_source(), _namespace()]},
        "panels": panels,
    }
    return json.dumps(page, indent=1) + "\n"


def _panel(number: int, panel: Panel) -> JsonObject:
    across = _ROW // _WIDTH
    place = {"h": _HEIGHT, "w": _WIDTH, "x": _WIDTH * (number % across), "y": _HEIGHT * (number // across)}
    targets = [
        {"refId": chr(ord("A") + turn), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
        for turn, (legend, query) in enumerate(panel.queries.items())
    ]
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": targets,
    }


def _source() -> JsonObject:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _namespace() -> JsonObject:
    return {
        "name": "namespace",
        "label": "Namespace of the platform",
        "type": "query",
        "datasource": _SOURCE,
        "query": f"label_values(leader_election_master_status{{{OWN}}}, namespace)",
        "refresh": 2,
    }
