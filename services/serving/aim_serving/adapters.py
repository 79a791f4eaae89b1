"""LoRA adapters of a service: their downloads, what the pods need, what is said of each (LA-001 to LA-042)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from aim_domain import (
    Adapter,
    AdapterMode,
    AdapterRuntime,
    AdapterState,
    AdapterStatus,
    AIMArtifact,
    AIMService,
    ArtifactType,
    InferenceService,
    RuntimeConfigSpec,
    child_labels,
    labels,
)
from aim_domain.component_names import ComponentName
from aim_domain.kinds import AIM_ARTIFACT
from aim_domain.naming import adapter_artifact_name, adapter_disk_name, adapter_folder, claim_name
from aim_domain.parts import ARTIFACT_CLAIMS, ARTIFACTS
from aim_serving.adapter_loading import EnginePods, LoadedIn, WantedAdapter, loaded_in_pods
from aim_serving.containers import canonical_text
from aim_serving.indexes import ARTIFACTS_BY_OWNER
from aim_serving.references import MOST_NAMED, Template
from aim_serving.template_cache import has_failed, storage_class_of
from aim_serving.volumes import ADAPTER_PATH, ADAPTER_VOLUME, AdapterMount
from controller_runtime import (
    Child,
    ConditionStatus,
    Delete,
    Desired,
    Effect,
    JsonObject,
    Lookup,
    Observability,
    StatusValue,
    View,
    WriteMode,
    condition,
    dumps,
    kind_of,
    ready_words,
    scoped,
)
from controller_runtime.texts import shortened

ADAPTERS_READY: Final = "AdaptersReady"
_DISK_SIZE: Final = "20Gi"
_LORAS, _CPU_LORAS, _RANK = 8, 16, 32
_NO_RUNTIME: Final = AdapterRuntime()
_LONGEST_MESSAGE: Final = 1000
_OF_VOLUME: Final = frozenset({ComponentName.STORAGE_QUOTA.condition, ComponentName.CACHE_PVC.condition})
_ON_ITS_WAY: Final = frozenset({"ResourceNotReady", "PvcNotFound"})
"""Reasons of a claim that is about to be made."""
_NOT_MADE: Final = frozenset({StatusValue.FAILED, StatusValue.DEGRADED, StatusValue.NOT_AVAILABLE})


@dataclass(frozen=True, slots=True)
class AdapterDisk:
    """Where the adapters of a service lie.

    Attributes:
        name: of the AIMArtifact.
        claim: that pods can mount; empty while there is none.
        trouble: why there will be none until a person acts; empty while it is on its way.
    """

    name: str
    claim: str
    trouble: str = ""

    @property
    def is_awaited(self) -> bool:
        """Whether pods that start now would have to be replaced in a moment (LA-013)."""
        return not self.claim and not self.trouble


@dataclass(frozen=True, slots=True)
class ListedAdapter:
    """An adapter of the spec, and the AIMArtifact of its files."""

    adapter: Adapter
    artifact: str
    found: Lookup[AIMArtifact]


@dataclass(frozen=True, slots=True)
class SeenAdapters:
    """Everything a pass found about the adapters of a service.

    Attributes:
        disks: the AIMArtifact of the disk, where it is to be made.
        downloads: AIMArtifacts of adapters to make.
        deletes: those of adapters that are not listed any longer.
    """

    disk: AdapterDisk
    listed: tuple[ListedAdapter, ...]
    disks: tuple[Child, ...] = ()
    downloads: tuple[Child, ...] = ()
    deletes: tuple[Delete, ...] = ()


def is_ready_for_adapters(service: AIMService) -> bool:
    """Whether its engine is to take adapters (LA-001)."""
    return bool(service.spec.adapters) or service.spec.adapter_mode is AdapterMode.DYNAMIC


def find_adapters(
    view: View, service: AIMService, config: RuntimeConfigSpec, running: InferenceService | None
) -> SeenAdapters | None:
    """The adapters of a service that has some, or had; ``None`` where nothing is left of them."""
    if not is_ready_for_adapters(service):
        return _given_up(view, service)
    runtime = service.spec.adapter_runtime or _NO_RUNTIME
    own = own_disk(service)
    name = runtime.disk or own
    disk = view.get(ARTIFACTS, service.namespace, name)
    disks = (_disk(service, name, config),) if name == own and _is_missing(disk) else ()
    listed, downloads = [], []
    for adapter in service.spec.adapters:
        artifact = _artifact_name(service, adapter, name)
        found = view.get(ARTIFACTS, service.namespace, artifact)
        listed.append(ListedAdapter(adapter, artifact, found))
        if adapter.source_uri and _is_missing(found):
            downloads.append(_adapter(service, adapter, artifact, name, config))
    return SeenAdapters(
        _disk_found(view, service, name, disk, running),
        tuple(listed),
        disks,
        tuple(downloads),
        _left_overs(view, service, {name, *(one.artifact for one in listed)}, running),
    )


def _given_up(view: View, service: AIMService) -> SeenAdapters | None:
    """What is left of adapters that the service had (LA-020)."""
    deletes = _left_overs(view, service, set(), None)
    return SeenAdapters(AdapterDisk("", ""), (), deletes=deletes) if deletes else None


def _is_missing(found: Lookup[AIMArtifact]) -> bool:
    return found.value is None and found.error is None


def own_disk(service: AIMService) -> str:
    """Name of the disk that a service has unless it names another (LA-011)."""
    return adapter_disk_name(service.name, service.uid, _disk_size(service))


def _disk_size(service: AIMService) -> str:
    return canonical_text((service.spec.adapter_runtime or _NO_RUNTIME).disk_size or _DISK_SIZE)


def _artifact_name(service: AIMService, adapter: Adapter, disk: str) -> str:
    if not adapter.source_uri:
        return adapter.name
    return adapter_artifact_name(service.name, adapter.name, adapter.source_uri, disk)


def _left_overs(
    view: View, service: AIMService, wanted: set[str], running: InferenceService | None
) -> tuple[Delete, ...]:
    """What serving made and is not wanted; a disk stays as long as new pods would mount it."""
    mounted = mounted_disk(running) if running is not None else ""
    owned = view.select(ARTIFACTS_BY_OWNER, scoped(service.namespace, service.uid)).items
    return tuple(
        Delete(ARTIFACTS, one.namespace, one.name, one.uid, "the service does not list it any longer")
        for one in owned
        if one.name not in wanted
        and not one.deleting
        and _is_own(one, service)
        and claim_name(one.name, one.uid) != mounted
    )


def _is_own(artifact: AIMArtifact, service: AIMService) -> bool:
    """Whether serving made it; any client can write an owner reference."""
    controlled = any(owner.uid == service.uid and owner.controller for owner in artifact.metadata.owner_references)
    component = artifact.metadata.labels.get(labels.COMPONENT)
    return controlled and component in {labels.COMPONENT_ADAPTER, labels.COMPONENT_ADAPTER_DISK}


# Disk


def _disk_found(
    view: View, service: AIMService, name: str, found: Lookup[AIMArtifact], running: InferenceService | None
) -> AdapterDisk:
    """The disk with its claim. What pods have mounted stays: a disk that goes takes no pod along (LA-033)."""
    mounted = mounted_disk(running) if running is not None else ""
    disk = found.value
    if found.error is not None:
        return AdapterDisk(name, mounted, "" if mounted else found.error.message)
    where = f"AIMArtifact {service.namespace}/{name}"
    if disk is None:
        missing = (
            "" if name == own_disk(service) else f"{where} not found; create it with type {ArtifactType.ADAPTER_DISK}"
        )
        return AdapterDisk(name, mounted, missing)
    if disk.spec.type is not ArtifactType.ADAPTER_DISK:
        return AdapterDisk(name, mounted, f"{where} is no {ArtifactType.ADAPTER_DISK}; name one in adapterRuntime.disk")
    claim = view.get(ARTIFACT_CLAIMS, disk.namespace, claim_name(disk.name, disk.uid)).value
    if claim is not None and not claim.deleting and (claim.name == mounted or disk.status.status is StatusValue.READY):
        return AdapterDisk(name, claim.name)
    return AdapterDisk(name, mounted, _trouble(disk, where))


def _trouble(disk: AIMArtifact, where: str) -> str:
    """Why the disk gets no claim, where it says so."""
    refused = any(
        one.status is not ConditionStatus.TRUE and one.reason not in _ON_ITS_WAY
        for one in disk.status.conditions
        if one.type in _OF_VOLUME
    )
    if refused or disk.status.status in _NOT_MADE:
        return f"{where}{ready_words(disk.status.conditions)}"
    return ""


def mounted_disk(workload: InferenceService) -> str:
    """The claim that an InferenceService mounts for adapters; empty without one."""
    for volume in workload.spec.predictor.volumes:
        if volume.name == ADAPTER_VOLUME and volume.persistent_volume_claim is not None:
            return volume.persistent_volume_claim.claim_name
    return ""


def _disk(service: AIMService, name: str, config: RuntimeConfigSpec) -> Child:
    storage_class = storage_class_of(service, config)
    spec = {
        "type": ArtifactType.ADAPTER_DISK.value,
        "size": _disk_size(service),
        **({} if storage_class is None else {"storageClassName": storage_class}),
    }
    return _artifact(service, name, labels.COMPONENT_ADAPTER_DISK, spec, config)


def _adapter(service: AIMService, adapter: Adapter, name: str, disk: str, config: RuntimeConfigSpec) -> Child:
    spec = {
        "type": ArtifactType.ADAPTER.value,
        "disk": disk,
        "sourceUri": adapter.source_uri,
        "imagePullSecrets": [{"name": one.name} for one in service.spec.image_pull_secrets],
    }
    return _artifact(service, name, labels.COMPONENT_ADAPTER, spec, config)


def _artifact(service: AIMService, name: str, component: str, spec: JsonObject, config: RuntimeConfigSpec) -> Child:
    own = {labels.COMPONENT: component}
    metadata = {
        "name": name,
        "namespace": service.namespace,
        "labels": child_labels(own, parent=service, controller="service", propagation=config.label_propagation),
    }
    spec = {**spec, "runtimeConfigName": service.spec.runtime_config_name}
    body = {"metadata": metadata, "spec": {key: value for key, value in spec.items() if value}}
    return Child(ARTIFACTS, kind_of(body, AIM_ARTIFACT), mode=WriteMode.CREATE)


# Pods


def adapter_mount(service: AIMService, template: Template, seen: SeenAdapters) -> AdapterMount | None:
    """The mount; ``None`` while there is no claim (LA-013), and for a service that had adapters."""
    if not seen.disk.claim or not is_ready_for_adapters(service):
        return None
    return AdapterMount(seen.disk.claim, engine_env(service.spec.adapter_runtime or _NO_RUNTIME, template))


def engine_env(runtime: AdapterRuntime, template: Template) -> dict[str, str]:
    """The service's limits, else the profile's, else the defaults."""
    profile = template.status.profile
    given = profile.engine_args if profile is not None and isinstance(profile.engine_args, dict) else {}
    loras = runtime.max_loras or _number(given, "max-loras", _LORAS)
    in_memory = runtime.max_cpu_loras or _number(given, "max-cpu-loras", _CPU_LORAS)
    arguments = {
        "enable-lora": True,
        "max-loras": loras,
        # vLLM refuses to start with fewer.
        "max-cpu-loras": max(loras, in_memory),
        "max-lora-rank": runtime.max_rank or _number(given, "max-lora-rank", _RANK),
    }
    return {"AIM_ENGINE_ARGS": dumps(arguments).decode(), "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}


def _number(given: JsonObject, name: str, default: int) -> int:
    value = given.get(name, given.get(name.replace("-", "_")))
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default


# What is reported


@dataclass(frozen=True, slots=True)
class AdaptersJudged:
    """How the adapters are, and what the engines are to do."""

    statuses: tuple[AdapterStatus, ...] = ()
    conditions: tuple[Desired, ...] = ()
    effects: tuple[Effect, ...] = ()


def judge_adapters(view: View, service: AIMService, seen: SeenAdapters, workload: str) -> AdaptersJudged:
    """The state of each adapter, and the condition of all."""
    if not is_ready_for_adapters(service):
        return AdaptersJudged()
    usable = [
        WantedAdapter(name=one.adapter.name, path=f"{ADAPTER_PATH}/{adapter_folder(artifact.name, artifact.uid)}")
        for one in seen.listed
        if (artifact := one.found.value) is not None and _before_pods(service, seen.disk, one) is None
    ]
    kept = [adapter.name for adapter in service.spec.adapters]
    pods = loaded_in_pods(view, service, EnginePods(workload, seen.disk.claim), usable, kept)
    statuses = tuple(_status(service, seen.disk, one, pods) for one in seen.listed)
    desired = _condition(statuses, seen.disk)
    return AdaptersJudged(statuses, () if desired is None else (desired,), pods.effects)


def _is_there(artifact: AIMArtifact) -> bool:
    return artifact.status.status is StatusValue.READY and not artifact.deleting


def _fault(service: AIMService, disk: AdapterDisk, artifact: AIMArtifact) -> str:
    """Why an AIMArtifact cannot be an adapter of the service (LA-042)."""
    where = f"AIMArtifact {artifact.key}"
    if artifact.spec.type is not ArtifactType.ADAPTER:
        return f"{where} is no adapter; create one with type {ArtifactType.ADAPTER} and disk {disk.name}"
    if artifact.spec.disk != disk.name:
        return (
            f"{where} is on disk {artifact.spec.disk}, and AIMService {service.key} mounts disk {disk.name}; "
            f"set adapterRuntime.disk: {artifact.spec.disk}, or create the adapter on the other disk"
        )
    return ""


def _status(service: AIMService, disk: AdapterDisk, one: ListedAdapter, pods: LoadedIn) -> AdapterStatus:
    name = one.adapter.name
    state, message = _before_pods(service, disk, one) or _in_pods(name, pods)
    loaded = f"{pods.count(name)}/{pods.ready}" if pods.ready else None
    # It quotes what engines and downloads say, and the API server rejects a whole status for one text that is too long.
    said = shortened(message, _LONGEST_MESSAGE) or None
    return AdapterStatus(name=name, artifact=one.artifact, state=state, pods=loaded, message=said)


def _before_pods(service: AIMService, disk: AdapterDisk, one: ListedAdapter) -> tuple[AdapterState, str] | None:
    """Why no engine is to load it yet; ``None`` where its files are there."""
    artifact, where = one.found.value, f"AIMArtifact {service.namespace}/{one.artifact}"
    if one.found.error is not None:
        return AdapterState.PENDING, one.found.error.message
    if artifact is None:
        remedy = f"not found; create it on disk {disk.name}, or set sourceUri"
        return AdapterState.PENDING, f"{where} {'is being made' if one.adapter.source_uri else remedy}"
    fault = _fault(service, disk, artifact)
    if fault:
        return AdapterState.FAILED, fault
    if _is_there(artifact):
        return None
    words = ready_words(artifact.status.conditions)
    if has_failed(artifact):
        return AdapterState.FAILED, f"{where}{words}"
    return AdapterState.DOWNLOADING, f"{where}{words or ' begins'}"


def _in_pods(name: str, pods: LoadedIn) -> tuple[AdapterState, str]:
    refused = pods.refusal(name)
    if refused:
        return AdapterState.FAILED, refused
    if not pods.ready:
        return AdapterState.PENDING, "no pod with the disk of the adapters is ready"
    return (AdapterState.READY, "") if pods.count(name) == pods.ready else (AdapterState.LOADING, pods.trouble)


_REASONS: Final = (
    (AdapterState.FAILED, "AdapterFailed"),
    (AdapterState.DOWNLOADING, "AdaptersDownloading"),
    (AdapterState.LOADING, "AdaptersLoading"),
    (AdapterState.PENDING, "AdaptersPending"),
)
"""In the order of what is said first."""


def _condition(statuses: Sequence[AdapterStatus], disk: AdapterDisk) -> Desired | None:
    if disk.trouble:
        message = f"the model is served without adapters: {disk.trouble}"
        return condition(ADAPTERS_READY, False, "AdapterDiskNotReady", message, Observability.WARNING)
    if not statuses:
        return None
    for state, reason in _REASONS:
        found = [one for one in statuses if one.state is state]
        if found:
            observe = Observability.WARNING if state is AdapterState.FAILED else Observability.INFO
            return condition(ADAPTERS_READY, False, reason, "; ".join(_words(found)), observe)
    return condition(ADAPTERS_READY, True, "AdaptersLoaded", "every adapter is loaded in every ready pod")


def _words(statuses: Sequence[AdapterStatus]) -> Iterator[str]:
    for one in statuses[:MOST_NAMED]:
        yield f"adapter {one.name} {one.state.lower()}" + (f": {one.message}" if one.message else "")
    if len(statuses) > MOST_NAMED:
        yield f"and {len(statuses) - MOST_NAMED} more"
