"""Conditions and their reasons in words: which condition says it, what it means, what to do.

A test compares the names with those that the code tells, in both directions.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

_REMEDIES: Final = {
    "downloads": "[downloads](../troubleshooting.md#the-download-of-the-weights)",
    "limits": "[limits](../troubleshooting.md#limits-of-storage)",
    "names": "[names and references](../troubleshooting.md#names-and-references)",
    "pods": "[pods and images](../troubleshooting.md#pods-and-images)",
    "routes": "[routes](../troubleshooting.md#routes)",
    "gateway": "[routing](../routing.md#what-httprouteready-says)",
    "sources": "[the codes](../model-catalogue.md#what-the-status-says)",
    "platform": "[the platform itself](../troubleshooting.md#the-platform-itself)",
    "self": "nothing: it is tried again",
    "wait": "wait",
}
"""Remedies that many reasons have, by the word for them in the file."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason.

    Attributes:
        of: the conditions that say it for themselves; others repeat it.
        remedy: what a user can do, or where that stands; empty where all is well.
    """

    name: str
    of: str
    meaning: str
    remedy: str = ""


CONDITIONS: Final[Mapping[str, str]] = {
    "Ready": "all below are true; otherwise it has reason and message of the one that decides",
    "DependenciesReachable": "all servers answered; there since the first failure",
    "AuthValid": "no server refused a credential; there since the first refusal",
    "ConfigValid": "the spec is valid and all references resolve; there since the first fault",
    "RuntimeConfigReady": "the runtime config that applies was found, or none was named",
    "ModelReady": "the model was found, or made, and can be used",
    "ClusterModelReady": "the AIMClusterModel was found and can be used",
    "TemplateReady": "a template is chosen, and ready",
    "CacheReady": "the weights are on their volumes; on a template: those of its own cache, for information",
    "InferenceServiceReady": "KServe's InferenceService is ready",
    "InferenceServicePodsReady": "at least one of its pods is ready, or it sleeps at zero",
    "HTTPRouteReady": "the gateway has accepted the route",
    "HPAReady": "the autoscaler has its metrics and its target",
    "ImageMetadataReady": "what the image's labels say is known, or is not needed",
    "ServiceTemplatesReady": "the templates of the model are ready, as far as the cluster has their GPUs",
    "ClusterServiceTemplatesReady": "the same, of an AIMClusterModel",
    "CustomProfileReady": "the custom profile of the template can be used",
    "DiscoveryJobReady": "the discovery Job has ended well, or none is needed",
    "DiscoveryPodsReady": "its pod runs or has ended well",
    "GPUReady": "a node has the GPU that the template is for",
    "Discovered": "the profile of the template is known; for information",
    "ServiceTemplateReady": "the template of the cache is ready",
    "ArtifactsReady": "all artifacts of the cache are ready",
    "CheckSizeJobReady": "the Job that asks the source for the size has ended well",
    "CheckSizeJobPodsReady": "its pod runs or has ended well",
    "CheckSizeOutputReady": "its answer can be read",
    "StorageQuotaReady": "the volume fits into the limits",
    "CachePvcReady": "the volume is bound",
    "DownloadJobReady": "the download Job has ended well",
    "DownloadJobPodsReady": "its pod runs or has ended well",
    "DownloadComplete": "all files are there, and were compared with the source; for information",
    "ModelIdKnown": "false where an `s3://` source has no `modelId`; for information",
    "ExistingModelsReady": "the models of the source are known",
    "FiltersReady": "every entry of the source was read",
    "RegistryReachable": "every registry that was asked gave an answer",
    "Syncing": "a sync runs; its reason tells how the last one ended",
    "Degraded": "the opposite of Ready",
    "MaxModelsLimitReached": "`maxModels` keeps images from becoming models",
    "Reconciled": "false while another client overwrites fields, or after the object held its service",
    "HTTPRouteReconciled": "the same, of the route",
    "ProfileReady": "a profile is chosen, and ready; on a cache: its profile is there",
    "ProfileCacheReady": "the weights of the profile are on their volumes",
    "ProfileFound": "the profile of the cache is there; for information",
    "NodesReady": "a node has the accelerator of the profile, or it names none",
    "HardwareAvailable": "the same; for information",
    "Deployable": "the profile has weights; for information",
    "DerivationReady": "the profiles of the set are there and ready",
    "ManagedProfilesReady": "the profiles of a model that is derived from others are ready",
    "ProfilesDiscovered": "the profiles of the image are known; for information",
    "DryRun": "the annotation `dry-run` is set: nothing is written",
    "RolledOut": "whether the version runs that the service asks for; only with `rollout`",
    "AdaptersReady": "whether every LoRA adapter is loaded in every ready pod; only with `adapters`",
    "AutoscalingInEffect": "false where autoscaling has no `maxReplicas` and so can change nothing",
    "ReplicasInEffect": "false where `spec.replicas` was changed while autoscaling decides",
}
"""When each condition is true."""

EXTRA: Final[Mapping[str, tuple[str, ...]]] = {
    "AIMService": (
        "HTTPRouteReconciled",
        "AutoscalingInEffect",
        "DryRun",
        "ReplicasInEffect",
        "RolledOut",
        "AdaptersReady",
    ),
    "AIMServiceTemplate": ("Discovered", "CacheReady"),
    "AIMClusterServiceTemplate": ("Discovered",),
    "AIMModel": ("ProfilesDiscovered",),
    "AIMClusterModel": ("ProfilesDiscovered",),
    "AIMProfile": ("HardwareAvailable", "Deployable"),
    "AIMClusterProfile": ("HardwareAvailable", "Deployable"),
    "AIMProfileCache": ("ProfileFound",),
    "AIMArtifact": ("DownloadComplete", "ModelIdKnown"),
    "AIMClusterModelSource": ("Degraded", "Syncing", "RegistryReachable", "MaxModelsLimitReached"),
}
"""Conditions beside those of components, by kind."""


def _read(text: str) -> Iterator[tuple[str, tuple[Reason, ...]]]:
    for section in text.split("# ")[1:]:
        title, *rows = section.strip().splitlines()
        yield title, tuple(_reason(*row.split(" | ")) for row in rows)


def _reason(name: str, of: str, meaning: str, remedy: str = "") -> Reason:
    return Reason(name, of, meaning, _REMEDIES[remedy[1:]] if remedy.startswith("@") else remedy)


REASONS: Final[Mapping[str, tuple[Reason, ...]]] = dict(
    _read(files(__package__).joinpath("reasons.txt").read_text(encoding="utf-8"))
)
"""Every reason, by what it is about; each once. A row of the file: name, conditions, meaning, what to do."""
