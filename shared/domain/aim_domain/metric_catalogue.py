"""What each metric of the services themselves is; those of the framework are in `controller_runtime` (FW-560)."""

from collections.abc import Mapping
from typing import Final

from controller_runtime.telemetry.catalogue import FRAMEWORK, Metric, MetricKind

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

ALL: Final = tuple({one.name: one for some in (FRAMEWORK, *BY_SERVICE.values()) for one in some}.values())
