"""The profiles of a model: those of its image, and those of a model that is derived from others (PR-095 to PR-098)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final

from aim_discovery.profiles.catalogue import Catalogue, Entry
from aim_discovery.profiles.counting import counts_of, managed_component
from aim_discovery.profiles.discovery import Reading, ReadingInputs, read_profiles
from aim_discovery.profiles.hardware import match_hardware
from aim_discovery.scopes import Model, ModelScope, work_namespace
from aim_discovery.settings import DiscoverySettings
from aim_discovery.templates.gpu import Reach
from aim_discovery.templates.reconcile import gpu_taint_of
from aim_domain import (
    PIPELINE_PROFILE,
    PIPELINE_TEMPLATE,
    ProfileOrigin,
    ProfileRole,
    RecommendedDeployment,
    ResolutionScope,
    ResolvedConfig,
    ResolvedReference,
    canonical_model,
    child_labels,
    labels,
    version_of_image,
)
from aim_domain.component_names import ComponentName
from aim_domain.kinds import AIM_CLUSTER_PROFILE, AIM_CLUSTER_PROFILE_SET, AIM_PROFILE, AIM_PROFILE_SET, CONFIG_MAP
from aim_domain.naming import catalogue_name, child_set_name, discovered_profile_name, label_value
from aim_domain.parts import CLUSTER_PROFILE_SETS, CLUSTER_PROFILES, PROFILE_SETS, PROFILES
from controller_runtime import (
    Child,
    Component,
    Delete,
    Desired,
    Effect,
    Index,
    JsonObject,
    Kind,
    Part,
    State,
    View,
    kind_of,
    owner_index,
    scoped,
    to_json,
)

PROFILES_BY_OWNER: Final = owner_index(PROFILES)
CLUSTER_PROFILES_BY_OWNER: Final = owner_index(CLUSTER_PROFILES)


@dataclass(frozen=True, slots=True)
class ProfileScope:
    """The kinds of profiles and sets beside one kind of models."""

    profiles: Part[Any]
    profile_kind: Kind[Any]
    by_owner: Index[Any]
    sets: Part[Any]
    set_kind: Kind[Any]
    name: str


_OF_NAMESPACE: Final = ProfileScope(
    PROFILES, AIM_PROFILE, PROFILES_BY_OWNER, PROFILE_SETS, AIM_PROFILE_SET, "namespace"
)
_OF_CLUSTER: Final = ProfileScope(
    CLUSTER_PROFILES,
    AIM_CLUSTER_PROFILE,
    CLUSTER_PROFILES_BY_OWNER,
    CLUSTER_PROFILE_SETS,
    AIM_CLUSTER_PROFILE_SET,
    "cluster",
)


def profile_scope(namespace: str) -> ProfileScope:
    """The kinds of a namespace, or of the cluster."""
    return _OF_NAMESPACE if namespace else _OF_CLUSTER


@dataclass(frozen=True, slots=True)
class ProfilesOfModel:
    """What a pass over a model says and does of its profiles; empty for a model that has none.

    Attributes:
        component: of a model that is nothing but its profiles; otherwise they take no part in its status (PR-097).
        fields: of its status.
    """

    component: Component | None = None
    conditions: tuple[Desired, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    children: tuple[Child, ...] = ()
    deletes: tuple[Delete, ...] = ()
    effects: tuple[Effect, ...] = ()
    requeue_after: float | None = None


def is_derived(model: Model) -> bool:
    """Whether the model is nothing but profiles that are derived from others."""
    return model.spec.profiles is not None and not model.spec.image


def is_read(model: Model, *, enabled: bool) -> bool:
    """Whether the profiles of its image are read: of AIM images alone (PR-090).

    Args:
        enabled: of all models; the annotation of a model says otherwise of that one.
    """
    spec, pipeline = model.spec, model.metadata.annotations.get(labels.ANNOTATION_PIPELINE)
    wanted = pipeline == PIPELINE_PROFILE or (enabled and pipeline != PIPELINE_TEMPLATE)
    own = spec.custom is not None or bool(spec.model_sources or spec.custom_templates)
    return wanted and bool(spec.image) and not own and spec.discovery.extract_metadata


@dataclass(frozen=True, slots=True)
class ImageSubject:
    """A model whose image is read, and by what."""

    model: Model
    scope: ModelScope
    config: ResolvedConfig
    settings: DiscoverySettings
    view: View

    @property
    def namespace(self) -> str:
        """Where Job and catalogue are."""
        return self.model.namespace or self.settings.system_namespace

    def labelled(self, own: Mapping[str, str]) -> dict[str, str]:
        """Labels of a child."""
        propagation = self.config.spec.label_propagation
        return child_labels(own, parent=self.model, controller=self.scope.controller, propagation=propagation)


def profiles_of(subject: ImageSubject, now: datetime) -> ProfilesOfModel:
    """Judge them; a model without an AIM image is not concerned."""
    model, settings, view = subject.model, subject.settings, subject.view
    if not is_read(model, enabled=settings.profiles_enabled):
        return ProfilesOfModel()
    if not work_namespace(view, subject.namespace).usable:
        return ProfilesOfModel()
    taint = gpu_taint_of(view, subject.config)
    inputs = ReadingInputs(model, subject.scope, subject.namespace, subject.config, taint, settings.max_discovery_jobs)
    reading = read_profiles(inputs, view, now)
    if reading.catalogue is not None:
        reach = Reach.of(subject.config.spec, taint, is_of_cluster=not model.namespace)
        return _of_catalogue(subject, reading, reading.catalogue, reach)
    before = model.status.discovered_profiles
    return ProfilesOfModel(
        conditions=(reading.condition,),
        fields={
            **_fields(model, reading),
            "discoveredProfiles": to_json(before) if before is not None else None,
        },
        children=reading.children,
        deletes=reading.deletes,
        effects=reading.effects,
        requeue_after=reading.requeue_after,
    )


def _fields(model: Model, reading: Reading) -> JsonObject:
    return {"discovery": reading.attempts.as_json(), "version": version_of_image(model.spec.image) or None}


def _of_catalogue(subject: ImageSubject, reading: Reading, catalogue: Catalogue, reach: Reach) -> ProfilesOfModel:
    model, view = subject.model, subject.view
    kinds = profile_scope(model.namespace)
    supported = {one.profile_id: match_hardware(one.profile, view, reach).is_there for one in catalogue.entries}
    owned = view.select(kinds.by_owner, scoped(model.namespace, model.uid))
    there = {one.name for one in owned.items}
    names = {discovered_profile_name(model.name, one.profile_id): one for one in catalogue.entries}
    # A profile that is there stays when its nodes go: services may use it, and nodes come back (PR-096).
    children = tuple(
        _child(subject, catalogue, entry, name)
        for name, entry in names.items()
        if supported[entry.profile_id] or name in there
    )
    former = [] if owned.error is not None else [one for one in owned.items if one.name not in names]
    deletes = tuple(
        Delete(kinds.profiles, one.namespace, one.name, one.uid, "the image has no such profile any longer")
        for one in former
        if not one.deleting
    )
    cache = ResolvedReference(
        name=catalogue_name(model.name),
        namespace=subject.namespace,
        kind=f"{CONFIG_MAP.api_version}/{CONFIG_MAP.kind}",
        scope=ResolutionScope.NAMESPACE,
    )
    return ProfilesOfModel(
        conditions=(reading.condition,),
        fields={
            **_fields(model, reading),
            "aimId": catalogue.aim_id or None,
            "baseImage": catalogue.base_image or None,
            "discoveredProfiles": _counts(catalogue.entries, supported),
            "managedProfiles": counts_of(owned.items),
            "discoveryCacheRef": to_json(cache),
        },
        children=children,
        deletes=deletes,
    )


def _child(subject: ImageSubject, catalogue: Catalogue, entry: Entry, name: str) -> Child:
    model, spec = subject.model, subject.model.spec
    kinds = profile_scope(model.namespace)
    role = ProfileRole.DEPLOYABLE if entry.spec.get("modelSources") else ProfileRole.BASE
    own = {
        labels.PROFILE_ROLE: role.value,
        labels.PROFILE_ORIGIN: ProfileOrigin.DISCOVERED.value,
        labels.SOURCE_MODEL: label_value(model.name),
        labels.SOURCE_MODEL_SCOPE: kinds.name,
    }
    metadata: JsonObject = {
        "name": name,
        **({"namespace": model.namespace} if model.namespace else {}),
        "labels": subject.labelled(own),
        "annotations": {
            labels.ANNOTATION_COPYABLE: labels.TRUE,
            labels.ANNOTATION_PROFILE_SOURCE: "image",
            **({labels.ANNOTATION_BASE_IMAGE: catalogue.base_image} if catalogue.base_image else {}),
        },
    }
    secrets = [to_json(secret) for secret in spec.image_pull_secrets]
    env = [to_json(variable) for variable in spec.env]
    primary = entry.is_primary if entry.is_primary is not None else _is_recommended(model, entry)
    body = {
        **entry.spec,
        "image": spec.image,
        "primary": primary,
        **({"imagePullSecrets": secrets} if secrets else {}),
        **({"serviceAccountName": spec.service_account_name} if spec.service_account_name else {}),
        **({"containerEnv": env} if env else {}),
    }
    return Child(kinds.profiles, kind_of({"metadata": metadata, "spec": body}, kinds.profile_kind))


def _is_recommended(model: Model, entry: Entry) -> bool:
    """Whether the image's labels name the profile, by its id or by what it is for (PR-095)."""
    found = model.status.image_metadata
    deployments = found.model.recommended_deployments if found is not None and found.model is not None else ()
    return any(_names(one, entry) for one in deployments)


def _names(deployment: RecommendedDeployment, entry: Entry) -> bool:
    if deployment.profile_id:
        return deployment.profile_id.lower() == entry.profile_id.lower()
    spec = entry.spec
    pairs = (
        (deployment.precision, spec.get("precision")),
        (deployment.metric, spec.get("metric")),
        (str(deployment.gpu_count) if deployment.gpu_count else None, str(spec.get("acceleratorCount"))),
        (canonical_model(deployment.gpu_model or ""), canonical_model(str(spec.get("acceleratorModel") or ""))),
    )
    said = [(wanted, has) for wanted, has in pairs if wanted]
    return bool(said) and all(str(wanted).lower() == str(has or "").lower() for wanted, has in said)


def _counts(entries: Sequence[Entry], supported: Mapping[str, bool]) -> JsonObject:
    """``status.discoveredProfiles``: by accelerator, those that nodes have first (PR-098)."""

    def place(entry: Entry) -> tuple[str, str, int, bool]:
        spec = entry.spec
        kind, model = str(spec.get("acceleratorType") or ""), str(spec.get("acceleratorModel") or "")
        return kind, model, int(spec.get("acceleratorCount") or 0), not supported[entry.profile_id]

    groups = groupby(sorted(entries, key=lambda one: (place(one), one.profile_id)), key=place)
    count = sum(1 for one in entries if supported[one.profile_id])
    return {
        "total": len(entries),
        "supported": count,
        "unsupported": len(entries) - count,
        "byHardware": [_group(where, tuple(members)) for where, members in groups],
    }


def _group(where: tuple[str, str, int, bool], members: Iterable[Entry]) -> JsonObject:
    kind, model, count, is_missing = where
    given = {"acceleratorType": kind or None, "acceleratorModel": model or None, "acceleratorCount": count or None}
    profiles = [{name: one.spec[name] for name in ("metric", "precision") if one.spec.get(name)} for one in members]
    return {
        **{name: value for name, value in given.items() if value is not None},
        "supported": not is_missing,
        "profiles": profiles,
    }


# A model that is derived from others


def derived_profiles_of(model: Model, scope: ModelScope, config: ResolvedConfig, view: View) -> ProfilesOfModel:
    """The set of a model with ``spec.profiles``, whose counts the model repeats (PR-115)."""
    kinds, given = profile_scope(model.namespace), model.spec.profiles
    assert given is not None
    name = child_set_name(model.name)
    found = view.get(kinds.sets, model.namespace or None, name)
    derivation = to_json(given)
    origin = derivation.pop("derivedFrom", {})
    metadata: JsonObject = {
        "name": name,
        **({"namespace": model.namespace} if model.namespace else {}),
        "labels": child_labels(
            {labels.SOURCE_MODEL: label_value(model.name), labels.SOURCE_MODEL_SCOPE: kinds.name},
            parent=model,
            controller=scope.controller,
            propagation=config.spec.label_propagation,
        ),
    }
    secrets = [to_json(secret) for secret in model.spec.image_pull_secrets]
    spec = {
        **origin,
        **derivation,
        **({"imagePullSecrets": secrets} if secrets else {}),
        **({"serviceAccountName": model.spec.service_account_name} if model.spec.service_account_name else {}),
    }
    child = Child(kinds.sets, kind_of({"metadata": metadata, "spec": spec}, kinds.set_kind))
    members = view.select(kinds.by_owner, scoped(model.namespace, found.value.uid)).items if found.value else ()
    if found.value is None:
        component = Component(
            ComponentName.MANAGED_PROFILES, State.PROGRESSING, "Creating", f"the profile set {name} is being created"
        )
    else:
        component = managed_component(ComponentName.MANAGED_PROFILES, members, of_set=found.value)
    reference = {"name": name, **({"namespace": model.namespace} if model.namespace else {})}
    return ProfilesOfModel(
        component=component,
        fields={"managedProfiles": counts_of(members), "profileSetRef": reference},
        children=(child,),
    )
