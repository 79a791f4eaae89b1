"""Metrics of the services themselves: what each is, and those of the access to registries (MS-351, FW-387)."""

from collections.abc import Mapping
from typing import Final

from controller_runtime import Readings
from controller_runtime.telemetry import FRAMEWORK_METRICS, Metric, MetricKind
from oci_registry import RegistryClient

_C, _G, _S = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.SUMMARY

_REGISTRIES: Final = (
    Metric("aim_registry_requests_total", _C, "Requests to registries", ("host", "status")),
    Metric("aim_registry_retries_total", _C, "Requests to registries that were tried again", ("host",)),
    Metric("aim_registry_rate_limited_total", _C, "Answers of registries that asked for patience", ("host",)),
    Metric("aim_registry_wait_seconds", _G, "How long a registry is left alone yet", ("host",)),
    Metric("aim_registry_insecure_endpoints", _G, "Registries that are asked without protection"),
)

BY_SERVICE: Final[Mapping[str, tuple[Metric, ...]]] = {
    "model-sync": (
        Metric("aim_model_syncs_total", _C, "Syncs of model sources by result", ("result",)),
        Metric("aim_model_sync_seconds", _S, "Duration of syncs"),
        Metric("aim_model_source_discovered_models", _G, "Models that a source has", ("source",)),
        Metric("aim_model_source_available_models", _G, "Models of a source that can be used", ("source",)),
        Metric("aim_model_source_limit_reached", _G, "1 where a source has more models than it may", ("source",)),
        *_REGISTRIES,
    ),
    "discovery": (Metric("aim_discovery_jobs_active", _G, "Discovery Jobs that run"), *_REGISTRIES),
    "artifacts": (
        Metric("aim_artifact_allocated_bytes", _G, "Bytes that volumes of artifacts ask for", ("namespace",)),
        Metric("aim_artifact_limit_bytes", _G, "Bytes that they may ask for in a namespace", ("namespace",)),
        Metric("aim_artifact_cluster_limit_bytes", _G, "Bytes that they may ask for in the cluster"),
        Metric("aim_artifact_downloads", _G, "Downloads that run", ("namespace",)),
        Metric("aim_artifact_download_missing_bytes", _G, "Bytes that these still have to bring", ("namespace",)),
    ),
    "serving": (),
    "routing": (),
}

ALL: Final = tuple({one.name: one for some in (FRAMEWORK_METRICS, *BY_SERVICE.values()) for one in some}.values())


def registry_readings(client: RegistryClient) -> Readings:
    """Requests by host and status class, limits that registries set, and unprotected endpoints."""
    seen = client.statistics()
    answers = [({"host": host, "status": status}, float(n)) for (host, status), n in sorted(seen.answers.items())]
    return {
        "aim_registry_requests_total": answers,
        "aim_registry_retries_total": _by_host(seen.retries),
        "aim_registry_rate_limited_total": _by_host(seen.rate_limited),
        "aim_registry_wait_seconds": _by_host(seen.waiting_hosts),
        "aim_registry_insecure_endpoints": [({}, float(client.insecure_endpoints))],
    }


def _by_host(numbers: Mapping[str, float]) -> list[tuple[Mapping[str, str], float]]:
    return [({"host": host}, float(number)) for host, number in sorted(numbers.items())]
