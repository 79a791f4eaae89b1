"""What the labels of a model image say (shape S16, CC-040). Nothing is required, nothing is limited."""

from __future__ import annotations

from pydantic import Field

from controller_runtime import ApiModel, Int32, Items, StrMap


class RecommendedDeployment(ApiModel):
    """A deployment that the image's author recommends."""

    gpu_model: str | None = None
    """GPU model."""
    gpu_count: Int32 | None = None
    """Number of GPUs."""
    precision: str | None = None
    """Numeric precision."""
    metric: str | None = None
    """What the deployment is optimised for."""
    profile_id: str | None = None
    """Profile inside the image."""
    description: str | None = None
    """Explanation."""


class ModelMetadata(ApiModel):
    """The model inside the image."""

    canonical_name: str | None = None
    """Canonical id of the model."""
    source: str | None = None
    """Where the weights come from."""
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
    description_full: str | None = None
    """Description of the model."""
    release_notes: str | None = None
    """Release notes."""
    recommended_deployments: Items[RecommendedDeployment] = ()
    """Deployments that the author recommends."""


class OciMetadata(ApiModel):
    """The standard OCI labels."""

    title: str | None = None
    """Title of the image."""
    description: str | None = None
    """Description of the image."""
    licenses: str | None = None
    """Licences of the content."""
    vendor: str | None = None
    """Who distributes the image."""
    authors: str | None = None
    """Who made the image."""
    source: str | None = None
    """Where the source of the image is."""
    documentation: str | None = None
    """Where the documentation is."""
    created: str | None = None
    """When the image was made, as its label says."""
    revision: str | None = None
    """Source revision of the image."""
    version: str | None = None
    """Version of the content."""


class ImageMetadata(ApiModel):
    """What the labels of a model image say."""

    model: ModelMetadata | None = None
    """The model inside the image."""
    oci: OciMetadata | None = None
    """The standard OCI labels."""
    original_labels: StrMap = Field(default_factory=dict)
    """All labels of the image as they are."""
