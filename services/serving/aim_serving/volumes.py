"""Volumes of the predictor: the claims of cached weights, and the profile of a custom template."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from aim_domain import (
    VOLUME,
    AIMService,
    CachedArtifact,
    InferenceService,
    InvalidProfileError,
    LabelPropagation,
    RenderedProfile,
    child_labels,
    labels,
    render_profile,
)
from aim_domain import VOLUME as PROFILE_VOLUME
from aim_domain.naming import optional_label_value, sanitise_segment, service_profile_name, template_profile_name
from aim_domain.parts import CUSTOM_PROFILES
from aim_serving.containers import CACHE_PATH
from aim_serving.references import Cache, Template, is_profile
from controller_runtime import Category, Child, ClassifiedError, JsonObject, StatusValue, kind_of, to_json
from controller_runtime.kinds import CONFIG_MAP

_HASH_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class ProfileMount:
    """A profile file and where the pods find it.

    Attributes:
        config_map: name of the ConfigMap in the service's namespace.
        copy: that ConfigMap, when serving has to make it: the one of a cluster template is in another namespace.
    """

    rendered: RenderedProfile
    config_map: str
    copy: Child | None = None

    @property
    def volume(self) -> JsonObject:
        return {"name": VOLUME, "configMap": {"name": self.config_map}}

    @property
    def mount(self) -> JsonObject:
        return {"name": VOLUME, "mountPath": self.rendered.mount_path, "readOnly": True}

    @property
    def hash(self) -> str:
        """Changes with the file, so that the pods are replaced then (SV-268)."""
        return hashlib.sha256(self.rendered.text.encode()).hexdigest()[:_HASH_DIGITS]


def profile_mount(
    service: AIMService, template: Template, propagation: LabelPropagation | None
) -> ProfileMount | ClassifiedError | None:
    """How the template's custom profile gets into the pods; ``None`` without one."""
    if template.spec.custom_profile is None or is_profile(template):
        return None
    try:
        rendered = render_profile(template.spec)
    except InvalidProfileError as fault:
        return ClassifiedError(Category.INVALID_SPEC, "InvalidCustomProfile", f"template {template.key}: {fault}")
    if template.namespace:
        return ProfileMount(rendered, template_profile_name(template.name))
    return own_mount(service, template, service_profile_name(service.name), rendered, propagation=propagation)


def own_mount(
    service: AIMService,
    template: Template,
    name: str,
    rendered: RenderedProfile,
    *,
    propagation: LabelPropagation | None,
) -> ProfileMount:
    """The file in a ConfigMap of the service's own."""
    of_template = optional_label_value(template.name)
    key = labels.PROFILE if is_profile(template) else labels.TEMPLATE
    own = {
        labels.COMPONENT: labels.COMPONENT_CUSTOM_PROFILE,
        **({key: of_template} if of_template else {}),
    }
    metadata = {
        "name": name,
        "namespace": service.namespace,
        "labels": child_labels(own, parent=service, controller="service", propagation=propagation),
    }
    body = kind_of({"metadata": metadata, "data": {rendered.file_name: rendered.text}}, CONFIG_MAP)
    return ProfileMount(rendered, name, Child(CUSTOM_PROFILES, body))


ADAPTER_VOLUME: Final = "adapters"
ADAPTER_PATH: Final = "/adapters"
"""Where the disk of the adapters is mounted (LA-012)."""


@dataclass(frozen=True, slots=True)
class AdapterMount:
    """What the pods of a service that is ready for adapters have besides (LA-001).

    Attributes:
        claim: of the disk.
        env: of the engine, below every other layer (LA-030).
    """

    claim: str
    env: Mapping[str, str]


SHARED_MEMORY: Final = "dshm"
HF_HOME_VOLUME: Final = "hf-home"
_SHARED_MEMORY_VOLUME: Final[JsonObject] = {
    "name": SHARED_MEMORY,
    "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"},
}
_SHARED_MEMORY_MOUNT: Final[JsonObject] = {"name": SHARED_MEMORY, "mountPath": "/dev/shm"}  # noqa: S108 - a mount, no file of ours


@dataclass(frozen=True, slots=True)
class Volumes:
    """Volumes of the pod and mounts of its container, in the order in which they are applied."""

    volumes: tuple[JsonObject, ...] = (_SHARED_MEMORY_VOLUME,)
    mounts: tuple[JsonObject, ...] = (_SHARED_MEMORY_MOUNT,)

    def with_new(self, volumes: Iterable[JsonObject], mounts: Iterable[JsonObject]) -> "Volumes":
        """These and the others, as far as their names are new, and the places where they are mounted."""
        taken = {mount["mountPath"] for mount in self.mounts}
        fitting = [mount for mount in _new(self.mounts, mounts) if mount["mountPath"] not in taken]
        return Volumes((*self.volumes, *_new(self.volumes, volumes)), (*self.mounts, *fitting))

    def with_profile(self, profile: ProfileMount | None) -> "Volumes":
        """These and the custom profile (SV-176)."""
        return self if profile is None else self._with(profile.volume, profile.mount)

    def with_hf_home(self, path: str) -> "Volumes":
        """These and a directory for the libraries of Hugging Face, where a path for it holds no weights (RC-156)."""
        claims = {volume["name"] for volume in self.volumes if "persistentVolumeClaim" in volume}
        if not path or any(mount["mountPath"] == path and mount["name"] in claims for mount in self.mounts):
            return self
        return self._with({"name": HF_HOME_VOLUME, "emptyDir": {}}, {"name": HF_HOME_VOLUME, "mountPath": path})

    def with_adapters(self, adapters: AdapterMount | None) -> "Volumes":
        """These and the disk of the adapters (LA-012)."""
        if adapters is None:
            return self
        volume = {"name": ADAPTER_VOLUME, "persistentVolumeClaim": {"claimName": adapters.claim, "readOnly": True}}
        return self._with(volume, {"name": ADAPTER_VOLUME, "mountPath": ADAPTER_PATH, "readOnly": True})

    def _with(self, volume: JsonObject, mount: JsonObject) -> "Volumes":
        """These and one that has its place for itself: the API server refuses two mounts at one path (SV-174)."""
        others = (one for one in self.mounts if one["mountPath"] != mount["mountPath"])
        return Volumes((*self.volumes, volume), (*others, mount))


def _new(known: Iterable[JsonObject], others: Iterable[JsonObject]) -> list[JsonObject]:
    # These are computed every time and never taken over (SV-174, RC-156, LA-012).
    taken = {item["name"] for item in known} | {PROFILE_VOLUME, HF_HOME_VOLUME, ADAPTER_VOLUME}
    return [item for item in others if item["name"] not in taken]


def volumes_of_cache(cache: Cache) -> Volumes:
    """For a new InferenceService: one claim per Ready artifact, by name (SV-168, SV-169)."""
    usable = [
        one
        for one in cache.status.artifacts.values()
        if one.status is StatusValue.READY and one.persistent_volume_claim
    ]
    ordered = sorted(usable, key=lambda one: one.name)
    volumes = [
        {"name": _volume_name(one), "persistentVolumeClaim": {"claimName": one.persistent_volume_claim}}
        for one in ordered
    ]
    mounts = [{"name": _volume_name(one), "mountPath": mount_path(one)} for one in ordered]
    return Volumes().with_new(volumes, mounts)


def lacks_volumes(cache: Cache) -> tuple[str, ...]:
    """Ready artifacts whose claim is not there: an InferenceService without it would never get it (SV-141)."""
    ready = (one for one in cache.status.artifacts.values() if one.status is StatusValue.READY)
    return tuple(sorted(one.name for one in ready if not one.persistent_volume_claim))


def volumes_of_workload(workload: InferenceService) -> Volumes:
    """For an existing InferenceService: what it has, so that a running service never loses its weights (SV-171)."""
    predictor = workload.spec.predictor
    if not predictor.containers:
        return Volumes()
    mounts = to_json(predictor.containers[0]).get("volumeMounts") or []
    return Volumes().with_new([to_json(volume) for volume in predictor.volumes], mounts)


def made_of(workload: InferenceService) -> str:
    """The template or profile that an InferenceService was made of, as its label says; empty when it says nothing."""
    given = workload.metadata.labels
    return given.get(labels.TEMPLATE) or given.get(labels.PROFILE) or ""


def is_made_of(workload: InferenceService, template: Template) -> bool:
    """Whether an InferenceService was made of a template, or of a profile of that name."""
    key = labels.PROFILE if is_profile(template) else labels.TEMPLATE
    return workload.metadata.labels.get(key) == optional_label_value(template.name)


def claims_of_workload(workload: InferenceService) -> tuple[str, ...]:
    """Claims of weights that it mounts, sorted."""
    volumes = (volume for volume in workload.spec.predictor.volumes if volume.name != ADAPTER_VOLUME)
    claims = (volume.persistent_volume_claim for volume in volumes)
    return tuple(sorted({claim.claim_name for claim in claims if claim is not None and claim.claim_name}))


def claims_of_cache(cache: Cache) -> tuple[str, ...]:
    """Claims of its artifacts, sorted."""
    return tuple(sorted({one.persistent_volume_claim or "" for one in cache.status.artifacts.values()} - {""}))


def mount_path(artifact: CachedArtifact) -> str:
    """Where an artifact is mounted; a model id cannot lead out of the cache directory (FW-346)."""
    if artifact.mount_point:
        return artifact.mount_point
    model = artifact.model.replace("..", "").strip("/")
    return f"{CACHE_PATH}/{model if model not in ('', '.') else _volume_name(artifact)}"


def _volume_name(artifact: CachedArtifact) -> str:
    return sanitise_segment(artifact.name)
