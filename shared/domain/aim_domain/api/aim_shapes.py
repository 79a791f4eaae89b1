"""Shapes shared by several AIM kinds (CC-032 to CC-039)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from pydantic import Field

from aim_domain.api.enums import Metric, Precision, ProfileType, ResolutionScope
from aim_domain.api.gateway_api import ParentReference
from aim_domain.bounds import MAX_GPU_MODEL
from controller_runtime import (
    DEFAULTED,
    REQUIRED,
    ApiModel,
    CelRule,
    FreeJson,
    Int32,
    Items,
    QuantityText,
    Schema,
    StrMap,
    Time,
)
from controller_runtime.core import EnvList

MODEL_ID: Final = Schema(pattern=r"^[a-zA-Z0-9_-]+/[a-zA-Z0-9._-]+$")
SOURCE_URI: Final = Schema(pattern=r"^(hf|s3)://[^ \t\r\n]+$")
DEFAULT_GPU_RESOURCE: Final = "amd.com/gpu"


class GpuRequirements(ApiModel):
    """What a profile needs of the GPUs; zero requests target GPU nodes without consuming GPUs."""

    schema_info: ClassVar[Schema] = Schema(
        rules=(  # CEL-02
            CelRule(
                "!(has(self.model) && self.model != '' && has(self.minVram))",
                "model and minVram are mutually exclusive; set only one of them",
            ),
        )
    )

    requests: Annotated[Int32 | None, Schema(minimum=0)] = None
    """Number of GPUs; 0 targets GPU nodes without consuming GPUs."""
    model: Annotated[str | None, Schema(max_length=MAX_GPU_MODEL)] = None
    """GPU model, such as MI300X; mutually exclusive with minVram."""
    min_vram: QuantityText | None = None
    """Minimum memory per GPU; mutually exclusive with model."""
    resource_name: Annotated[str, DEFAULTED] = DEFAULT_GPU_RESOURCE
    """Name of the extended resource for GPUs."""


class CpuRequirements(ApiModel):
    """What a profile needs of the CPUs."""

    requests: Annotated[QuantityText, REQUIRED] = 0
    """CPU request; must be greater than zero."""
    limits: QuantityText | None = None
    """CPU limit."""


class Hardware(ApiModel):
    """GPU and CPU requirements; at least one of them (shape S8)."""

    schema_info: ClassVar[Schema] = Schema(
        rules=(CelRule("has(self.gpu) || has(self.cpu)", "at least one of gpu and cpu is required"),)  # CEL-01
    )

    gpu: GpuRequirements | None = None
    """GPU requirements."""
    cpu: CpuRequirements | None = None
    """CPU requirements."""


class ModelSource(ApiModel):
    """Model weights to download (shape S9)."""

    model_id: Annotated[str, REQUIRED, MODEL_ID] = ""
    """Canonical id, org/name; also the path in the cache."""
    source_uri: Annotated[str, REQUIRED, SOURCE_URI] = ""
    """URI of the weights, hf:// or s3://."""
    size: QuantityText | None = None
    """Size of the weights, when known."""
    env: EnvList = ()
    """Environment variables of the download, such as credentials."""


class DownloadFilter(ApiModel):
    """Which files of a repository are downloaded; an empty object selects all of them (shape S10)."""

    include: Items[str] = ()
    """Glob patterns of files to include; all when absent."""
    exclude: Items[str] = ()
    """Glob patterns of files to exclude."""


class Storage(ApiModel):
    """Settings of the volumes that hold weights (shape S11)."""

    default_storage_class_name: str | None = None
    """StorageClass of the volumes."""
    pvc_headroom_percent: Annotated[Int32 | None, Schema(minimum=0)] = None
    """Extra space in percent of the model size; defaults to 10."""
    download_filter: DownloadFilter | None = None
    """Filter of the files to download."""


Hostname = Annotated[
    str,
    Schema(
        min_length=1,
        max_length=253,
        pattern=r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        rules=(  # CC-042
            CelRule("!self.matches('[^.]{64}')", "each label of a hostname has at most 63 characters"),
            CelRule("!self.matches('^[0-9]+([.][0-9]+)*$')", "an IP address is no hostname"),
        ),
    ),
]
"""As Gateway API has it: RFC 1123, optionally with the wildcard ``*.`` as first label."""


class Routing(ApiModel):
    """Settings of the HTTP route (shape S12)."""

    enabled: bool | None = None
    """Whether an HTTPRoute is created; when absent, the less specific level decides."""
    gateway_ref: ParentReference | None = None
    """Gateway that the HTTPRoute attaches to."""
    path_template: Annotated[str | None, Schema(max_length=1024)] = None
    """Template of the path; JSONPath expressions in it refer to the service."""
    hostnames: Annotated[Items[Hostname] | None, Schema(max_items=16)] = None
    """Hosts under which the path is served, such as chat.example.com or *.example.com; all when empty."""
    request_timeout: str | None = None
    """Timeout of a request, such as 30s or 2m."""
    annotations: StrMap = Field(default_factory=dict)
    """Annotations of the HTTPRoute."""


class CustomProfile(ApiModel):
    """A runtime profile written by the user (shape S13)."""

    engine_args: FreeJson = None
    """Arguments of the inference engine as a JSON object; the key model is not allowed."""
    env_vars: Annotated[
        StrMap,
        Schema(
            max_properties=64,
            rules=(  # CC-304
                CelRule(
                    "self.all(k, k.matches('^[A-Z0-9_]+$'))",
                    "keys of envVars must consist of upper-case letters, digits and underscores",
                ),
            ),
        ),
    ] = Field(default_factory=dict)
    """Environment variables of the inference engine."""


class ProfileMetadata(ApiModel):
    """What a discovered profile is made for."""

    engine: str | None = None
    """Inference engine."""
    gpu: str | None = None
    """GPU model."""
    gpu_count: Int32 | None = None
    """Number of GPUs."""
    metric: Metric | None = None
    """Metric that the profile is optimized for."""
    precision: Precision | None = None
    """Numeric precision."""
    type: ProfileType | None = None
    """Optimization level of the profile."""


class Profile(ApiModel):
    """A discovered runtime profile; mixed spelling of the keys is part of the API (shape S14, DI-031)."""

    engine_args: Annotated[FreeJson, Field(alias="engine_args")] = None
    """Arguments of the inference engine."""
    env_vars: Annotated[StrMap, Field(alias="env_vars")] = Field(default_factory=dict)
    """Environment variables of the inference engine."""
    metadata: ProfileMetadata | None = None
    """Metadata of the profile, such as engine and precision."""
    original_discovery_output: FreeJson = None
    """Output of the discovery, unmodified."""


class DiscoveryState(ApiModel):
    """Attempts to discover the profile."""

    attempts: Int32 | None = None
    """Number of attempts."""
    last_attempt_time: Time | None = None
    """When the last attempt started."""
    last_failure_reason: Annotated[str | None, Schema(max_length=32_768)] = None
    """Why the last attempt failed."""
    spec_hash: str | None = None
    """Hash of the inputs of these attempts."""


class ResolvedReference(ApiModel):
    """An object that a reference led to (shape S15)."""

    name: str | None = None
    """Name of the object."""
    namespace: str | None = None
    """Namespace of the object; absent when it is cluster-scoped."""
    kind: str | None = None
    """Kind of the object."""
    uid: str | None = None
    """UID of the object."""
    scope: ResolutionScope | None = None
    """Scope in which the object was found."""
