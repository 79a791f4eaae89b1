"""The default alerts: what each asks of the metrics, when it fires, and what it says (FW-561).

Numbers stand apart from the words of a query, so that a test can plant a small fault instead of waiting for a large
one.
"""

from dataclasses import dataclass
from typing import Final, Literal

from aim_domain.services import SERVICES
from aim_packaging.scraping import OWN, of

Severity = Literal["critical", "warning"]

RUNBOOKS: Final = "docs/runbooks.md"
"""What the chart replaces by the value of that meaning."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    Attributes:
        query: PromQL with ``{threshold}``, ``{window}`` and ``{own}``, the matcher of the platform's targets.
        window: over which changes are looked at.
        hold: for how long it has to be so.
        summary: a sentence, in which Prometheus fills labels and value.
    """

    name: str
    severity: Severity
    query: str
    threshold: float
    window: str
    hold: str
    summary: str

    def expression(self, *, threshold: float | None = None, window: str | None = None) -> str:
        """The query with its numbers, or with others."""
        value = self.threshold if threshold is None else threshold
        return self.query.format(threshold=f"{value:g}", window=window or self.window, own=OWN)

    @property
    def anchor(self) -> str:
        """Of its section in the runbooks."""
        return self.name.lower()


ALERTS: Final = (
    Alert(
        "AIMEngineDown",
        "critical",
        "up{{{own}}} <= {threshold}",
        0,
        "",
        "5m",
        "{{ $labels.job }} at {{ $labels.instance }} cannot be scraped",
    ),
    Alert(
        "AIMEngineAbsent",
        "critical",
        # Where the last pod of a service is gone, discovery drops its targets, and nothing is left that could be 0.
        " or ".join(f'label_replace(absent(up{{{{{of(one)}}}}}), "service", "{one}", "", "")' for one in SERVICES),
        0,
        "",
        "5m",
        "Nothing of {{ $labels.service }} is scraped",
    ),
    Alert(
        "AIMEngineNoLeader",
        "critical",
        "sum by (namespace, name) (leader_election_master_status{{{own}}}) <= {threshold}",
        0,
        "",
        "2m",
        "The Lease {{ $labels.name }} has no holder, so nothing is reconciled",
    ),
    Alert(
        "AIMEngineStale",
        "warning",
        "max by (namespace, pod, part) (aim_part_age_seconds{{{own}}}) > {threshold}",
        120,
        "",
        "5m",
        "{{ $labels.pod }} decides on what it knew of {{ $labels.part }} {{ $value | humanizeDuration }} ago",
    ),
    Alert(
        "AIMEngineForeignCluster",
        "critical",
        "max by (namespace, pod, part) (aim_part_foreign{{{own}}}) > {threshold}",
        0,
        "",
        "2m",
        "Another cluster publishes {{ $labels.part }} under the same root of the broker",
    ),
    Alert(
        "AIMEngineReconcileErrors",
        "warning",
        "sum by (namespace, controller) (rate(controller_runtime_reconcile_errors_total{{{own}}}[{window}]))"
        " > {threshold}",
        1,
        "5m",
        "15m",
        "{{ $labels.controller }} fails {{ $value | humanize }} times a second",
    ),
    Alert(
        "AIMEngineQueueGrows",
        "warning",
        "max by (namespace, name) (workqueue_depth{{{own}}}) > {threshold}",
        1000,
        "",
        "15m",
        "{{ $value }} objects wait for {{ $labels.name }}",
    ),
    Alert(
        "AIMEngineQueueOld",
        "warning",
        "max by (namespace, name) (aim_queue_oldest_seconds{{{own}}}) > {threshold}",
        300,
        "",
        "5m",
        "An object waits for {{ $labels.name }} since {{ $value | humanizeDuration }}",
    ),
    Alert(
        "AIMEnginePassHangs",
        "warning",
        "max by (namespace, name) (workqueue_longest_running_processor_seconds{{{own}}}) > {threshold}",
        300,
        "",
        "5m",
        "A pass of {{ $labels.name }} runs since {{ $value | humanizeDuration }}",
    ),
    Alert(
        "AIMEnginePublisherLag",
        "warning",
        "max by (namespace, pod, part) (aim_publisher_lag_seconds{{{own}}}) > {threshold}",
        60,
        "",
        "5m",
        "A change of {{ $labels.part }} is not on the broker since {{ $value | humanizeDuration }}",
    ),
    Alert(
        "AIMEngineEventPathSlow",
        "warning",
        "sum by (namespace, pod) (rate(aim_event_delivery_seconds_sum{{{own}}}[{window}]))"
        " / sum by (namespace, pod) (rate(aim_event_delivery_seconds_count{{{own}}}[{window}])) > {threshold}",
        5,
        "5m",
        "10m",
        "Changes reach {{ $labels.pod }} {{ $value | humanizeDuration }} after they are on the broker",
    ),
    Alert(
        "AIMEngineForeignMessages",
        "warning",
        "sum by (namespace, pod) (increase(aim_projection_dropped_total{{{own}}}[{window}])) > {threshold}",
        0,
        "15m",
        "0s",
        "{{ $labels.pod }} refused messages on the broker that no publisher wrote",
    ),
    Alert(
        "AIMEngineApiErrors",
        "warning",
        'sum by (namespace, pod) (rate(rest_client_requests_total{{{own},code=~"5..|429|<error>"}}[{window}]))'
        " / sum by (namespace, pod) (rate(rest_client_requests_total{{{own}}}[{window}])) > {threshold}",
        0.1,
        "5m",
        "10m",
        "{{ $value | humanizePercentage }} of the requests of {{ $labels.pod }} to the API server fail",
    ),
    Alert(
        "AIMEngineForbidden",
        "warning",
        'sum by (namespace, pod, verb, resource) (rate(aim_api_requests_total{{{own},code="403"}}[{window}]))'
        " > {threshold}",
        0,
        "15m",
        "5m",
        "{{ $labels.pod }} may not {{ $labels.verb }} {{ $labels.resource }}",
    ),
    Alert(
        "AIMEngineModelSyncFails",
        "warning",
        'sum by (namespace) (increase(aim_model_syncs_total{{{own},result=~"failed|error"}}[{window}])) > {threshold}'
        ' unless sum by (namespace) (increase(aim_model_syncs_total{{{own},result="succeeded"}}[{window}])) > 0',
        0,
        "3h",
        "0s",
        "No model source was synced, and some failed",
    ),
    Alert(
        "AIMEngineStorageFull",
        "warning",
        # The label of the metric gives way to that of the scraped pod.
        "max by (namespace, exported_namespace) (aim_artifact_allocated_bytes{{{own}}})"
        " / max by (namespace, exported_namespace) (aim_artifact_limit_bytes{{{own}}}) > {threshold}",
        0.95,
        "",
        "15m",
        "{{ $value | humanizePercentage }} of the storage of {{ $labels.exported_namespace }} for weights is taken",
    ),
    Alert(
        "AIMEngineObjectsFailed",
        "warning",
        'max by (namespace, controller) (aim_objects{{{own},status=~"Failed|Degraded"}}) > {threshold}',
        0,
        "",
        "15m",
        "{{ $value }} objects of {{ $labels.controller }} have failed or are degraded",
    ),
)


def rules() -> dict[str, object]:
    """The groups of a PrometheusRule, and of a rule file."""
    return {"groups": [{"name": "aim-engine", "rules": [rule(one) for one in ALERTS]}]}


def rule(
    alert: Alert, *, threshold: float | None = None, window: str | None = None, hold: str = ""
) -> dict[str, object]:
    """One rule, with its numbers or with others."""
    return {
        "alert": alert.name,
        "expr": alert.expression(threshold=threshold, window=window),
        "for": hold or alert.hold,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "runbook_url": f"{RUNBOOKS}#{alert.anchor}"},
    }
