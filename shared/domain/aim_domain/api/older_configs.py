"""KaiwoConfig and AIMNamespaceConfig: configuration as older documents have it (RC-125)."""

from __future__ import annotations

from typing import Annotated

from aim_domain.api.aim_shapes import DEFAULT_GPU_RESOURCE
from controller_runtime import DEFAULTED, ApiModel, Items, OpenEnum, Resource, Schema

API_VERSION = "config.kaiwo.silogen.ai/v1alpha1"


class SecretValueReference(ApiModel):
    """A key of a Secret in the same namespace."""

    secret_name: str | None = None
    """Name of the Secret."""
    secret_key: str | None = None
    """Key in the Secret."""


class GatewayRef(ApiModel):
    """The Gateway of a namespace's routes."""

    name: str | None = None
    """Name of the Gateway."""
    namespace: str | None = None
    """Namespace of the Gateway."""


class S3Credential(ApiModel):
    """Credentials for one S3 endpoint."""

    endpoint_url: str | None = None
    """URL of the endpoint."""
    access_key_id: SecretValueReference | None = None
    """Where the access key id is."""
    secret_access_key: SecretValueReference | None = None
    """Where the secret access key is."""


class GcsCredential(ApiModel):
    """Credentials for Google Cloud Storage, which no source of weights uses."""

    application_credentials: SecretValueReference | None = None
    """Where the JSON of the service account is."""


class AzureBlobCredential(ApiModel):
    """Credentials for Azure Blob Storage, which no source of weights uses."""

    connection_string: SecretValueReference | None = None
    """Where the connection string is."""


class NamespaceCredentials(ApiModel):
    """Credentials for the sources of weights."""

    hugging_face_token: SecretValueReference | None = None
    """Where the token for Hugging Face is."""
    s3: Items[S3Credential] = ()
    """Credentials for S3, one entry per endpoint."""
    gcs: Items[GcsCredential] = ()
    """Accepted and without effect: no source of weights is on Google Cloud Storage."""
    azure_blob: Items[AzureBlobCredential] = ()
    """Accepted and without effect: no source of weights is on Azure Blob Storage."""


class NamespaceImages(ApiModel):
    """How images are pulled."""

    image_pull_secrets: Items[str] = ()
    """Names of the Secrets with credentials for pulling images."""


class NamespaceConfigSpec(ApiModel):
    """Settings of a namespace, below its AIMRuntimeConfig."""

    gateway: GatewayRef | None = None
    """The Gateway of the namespace's routes."""
    credentials: NamespaceCredentials | None = None
    """Credentials for the sources of weights."""
    images: NamespaceImages | None = None
    """How images are pulled."""


class AIMNamespaceConfig(Resource):
    """Gateway, credentials and pull secrets of a namespace; its AIMRuntimeConfig takes precedence."""

    api_version: str = API_VERSION
    kind: str = "AIMNamespaceConfig"
    spec: NamespaceConfigSpec = NamespaceConfigSpec()
    """The settings."""


class MonitoringProfile(OpenEnum):
    """Resources that Kaiwo monitors."""

    GPU = "gpu"


class KaiwoRay(ApiModel):
    """Ray, which does not exist here."""

    default_ray_image: Annotated[str, DEFAULTED] = "ghcr.io/silogen/rocm-ray:6.4"
    """Accepted and without effect."""
    head_pod_memory: Annotated[str, DEFAULTED] = "16Gi"
    """Accepted and without effect."""


class KaiwoStorage(ApiModel):
    """Volumes and paths."""

    default_storage_class: str | None = None
    """StorageClass of volumes, where no runtime config names one."""
    default_data_mount_path: Annotated[str, DEFAULTED] = "/workload"
    """Accepted and without effect: weights are mounted below /workspace/cache."""
    default_hf_mount_path: Annotated[str, DEFAULTED] = "/hf_cache"
    """HF_HOME of download Jobs and serving containers, where a volume is mounted."""


class KaiwoNodes(ApiModel):
    """Nodes with GPUs."""

    default_gpu_resource_key: Annotated[str, DEFAULTED] = DEFAULT_GPU_RESOURCE
    """Resource of the GPUs of serving pods, where hardware.gpu.resourceName says nothing else."""
    default_gpu_taint_key: Annotated[str, DEFAULTED] = "kaiwo.silogen.ai/gpu"
    """Key of the taint of GPU nodes, which serving pods with GPUs tolerate."""
    exclude_master_nodes_from_node_pools: Annotated[bool, DEFAULTED] = False
    """Accepted and without effect."""
    add_taints_to_gpu_nodes: Annotated[bool, DEFAULTED] = False
    """Whether nodes with GPUs get that taint, with effect NoSchedule; taken away when this goes."""


class KaiwoScheduling(ApiModel):
    """Scheduling."""

    kube_scheduler_name: Annotated[str, DEFAULTED] = "kaiwo-scheduler"
    """Scheduler of serving pods; the default leaves it to the cluster."""
    pending_threshold_for_preemption: Annotated[str, DEFAULTED] = "5m"
    """Accepted and without effect."""


class KaiwoMonitoring(ApiModel):
    """Monitoring of Kaiwo's own workloads."""

    low_utilization_threshold: Annotated[float, DEFAULTED, Schema(minimum=0)] = 1
    """Accepted and without effect."""
    target_namespaces: Items[str] = ()
    """Accepted and without effect."""
    profile: Annotated[MonitoringProfile, DEFAULTED] = MonitoringProfile.GPU
    """Accepted and without effect."""
    terminate_underutilized: Annotated[bool, DEFAULTED] = False
    """Accepted and without effect."""
    terminate_underutilized_after: Annotated[str, DEFAULTED, Schema(pattern="^([0-9]+(s|m|h))+$")] = "24h"
    """Accepted and without effect."""


class KaiwoConfigSpec(ApiModel):
    """Settings of the whole cluster, below all runtime configs."""

    ray: Annotated[KaiwoRay, DEFAULTED] = KaiwoRay()
    """Ray, which does not exist here."""
    storage: Annotated[KaiwoStorage, DEFAULTED] = KaiwoStorage()
    """Volumes and paths."""
    nodes: Annotated[KaiwoNodes, DEFAULTED] = KaiwoNodes()
    """Nodes with GPUs."""
    scheduling: Annotated[KaiwoScheduling, DEFAULTED] = KaiwoScheduling()
    """Scheduling."""
    resource_monitoring: Annotated[KaiwoMonitoring, DEFAULTED] = KaiwoMonitoring()
    """Monitoring of Kaiwo's own workloads."""
    default_cluster_queue_name: Annotated[str, DEFAULTED] = "kaiwo"
    """Queue of services, as Kueue's label; the default sets none."""
    default_cluster_queue_cohort_name: Annotated[str, DEFAULTED] = "kaiwo"
    """Accepted and without effect."""
    dynamically_update_default_cluster_queue: Annotated[bool, DEFAULTED] = False
    """Accepted and without effect."""


class KaiwoConfig(Resource):
    """Settings of the whole cluster; the oldest one counts, and any runtime config takes precedence."""

    api_version: str = API_VERSION
    kind: str = "KaiwoConfig"
    spec: KaiwoConfigSpec = KaiwoConfigSpec()
    """The settings."""
