"""What the labels of a model image say (shape S16, CC-040). Nothing is required."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from controller_runtime import ApiModel, Int32, Items, Schema, StrMap

MAX_DEPLOYMENTS: Final = 64
"""Recommended deployments of an image that become templates: each is an object and a discovery (CC-341)."""


class RecommendedDeployment(ApiModel):
    """A deployment recommended by the author of the image."""

    gpu_model: str | None = None
    """GPU model."""
    gpu_count: Int32 | None = None
    """Number of GPUs."""
    precision: str | None = None
    """Numeric precision."""
    metric: str | None = None
    """Metric that the deployment is optimized for."""
    profile_id: str | None = None
    """Id of the profile in the image."""
    description: str | None = None
    """Human-readable description."""


class ModelMetadata(ApiModel):
    """Metadata of the model in the image."""

    canonical_name: str | None = None
    """Canonical id of the model."""
    source: str | None = None
    """URL of the model's origin."""
    tags: Items[str] = ()
    """Tags of the model."""
    versions: Items[str] = ()
    """Versions of the model."""
    variants: Items[str] = ()
    """Variants of the model."""
    hf_token_required: bool | None = None
    """Whether the download needs a Hugging Face token."""
    title: str | None = None
    """Title of the model."""
    description_full: Annotated[str | None, Schema(max_length=65_536)] = None
    """Description of the model."""
    release_notes: Annotated[str | None, Schema(max_length=65_536)] = None
    """Release notes."""
    recommended_deployments: Annotated[Items[RecommendedDeployment], Schema(max_items=MAX_DEPLOYMENTS)] = ()
    """Deployments recommended by the author of the image."""


class OciMetadata(ApiModel):
    """The standard OCI labels."""

    title: str | None = None
    """Title of the image."""
    description: str | None = None
    """Description of the image."""
    licenses: str | None = None
    """Licenses of the content."""
    vendor: str | None = None
    """Vendor of the image."""
    authors: str | None = None
    """Authors of the image."""
    source: str | None = None
    """URL of the source of the image."""
    documentation: str | None = None
    """URL of the documentation."""
    created: str | None = None
    """Creation time of the image, as its label says."""
    revision: str | None = None
    """Source revision of the image."""
    version: str | None = None
    """Version of the content."""


class ImageMetadata(ApiModel):
    """What the labels of a model image say."""

    model: ModelMetadata | None = None
    """Metadata of the model in the image."""
    oci: OciMetadata | None = None
    """The standard OCI labels."""
    original_labels: StrMap = Field(default_factory=dict)
    """All labels of the image, unmodified."""
