"""One pass over a profile: its origin, the nodes with its hardware, and what its pods need (PR-006, PR-020)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

from aim_discovery.profiles.hardware import AVAILABLE, HardwareMatch, match_hardware
from aim_discovery.scopes import work_namespace
from aim_discovery.templates.gpu import Reach
from aim_discovery.templates.reconcile import gpu_taint_of
from aim_domain import (
    AIMClusterProfileSet,
    AIMProfile,
    AIMProfileSet,
    AnyProfile,
    LabelPropagation,
    ProfileOrigin,
    ProfileRole,
    ResolutionScope,
    ResolvedReference,
    TemplateScope,
    accelerator_summary,
    child_labels,
    labels,
    profile_errors,
    resolve_config,
    role_of,
    runtime_resources,
    version_of_image,
)
from aim_domain.bounds import MAX_STRING
from aim_domain.kinds import (
    AIM_CLUSTER_MODEL,
    AIM_CLUSTER_PROFILE_SET,
    AIM_MODEL,
    AIM_PROFILE_CACHE,
    AIM_PROFILE_SET,
    AIM_SERVICE,
)
from aim_domain.parts import CLUSTER_PROFILE_SETS, CLUSTER_PROFILES, PROFILE_CACHES, PROFILE_SETS, PROFILES
from controller_runtime import (
    Child,
    Desired,
    Event,
    EventType,
    JsonObject,
    Lookup,
    Observability,
    OwnerReference,
    Part,
    Plan,
    Resource,
    View,
    WriteMode,
    assemble,
    condition,
    evaluate,
    kind_of,
    status_json,
    to_json,
)

DEPLOYABLE: Final = "Deployable"
BASE: Final = "BaseProfile"

ProfileSet: TypeAlias = AIMProfileSet | AIMClusterProfileSet

_MODELS: Final = frozenset({AIM_MODEL.kind, AIM_CLUSTER_MODEL.kind})
_SETS: Final = frozenset({AIM_PROFILE_SET.kind, AIM_CLUSTER_PROFILE_SET.kind})


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a profile comes from: by its owner, never by labels, which any client writes (PR-007).

    Attributes:
        model: that it belongs to; ``None`` without one.
    """

    origin: ProfileOrigin
    model: ResolvedReference | None = None


def provenance_of(profile: AnyProfile, view: View) -> Provenance:
    """By the object that controls it."""
    owner = _controller(profile)
    if owner is None:
        return Provenance(ProfileOrigin.USER_AUTHORED)
    if owner.kind in _MODELS:
        return Provenance(ProfileOrigin.DISCOVERED, _model(owner, profile.namespace))
    if owner.kind in _SETS:
        found = _set(view, profile.namespace, owner.name).value
        of_set = _controller(found) if found is not None else None
        is_of_model = of_set is not None and of_set.kind in _MODELS
        return Provenance(
            ProfileOrigin.DERIVED,
            _model(of_set, profile.namespace) if of_set is not None and is_of_model else None,
        )
    return Provenance(ProfileOrigin.DERIVED if owner.kind == AIM_SERVICE.kind else ProfileOrigin.USER_AUTHORED)


def _controller(obj: Resource) -> OwnerReference | None:
    return next((one for one in obj.metadata.owner_references if one.controller), None)


def _set(view: View, namespace: str, name: str) -> Lookup[ProfileSet]:
    if namespace:
        local = view.get(PROFILE_SETS, namespace, name)
        return Lookup(local.value, local.error)
    shared = view.get(CLUSTER_PROFILE_SETS, None, name)
    return Lookup(shared.value, shared.error)


def _model(owner: OwnerReference, namespace: str) -> ResolvedReference:
    scope = ResolutionScope.NAMESPACE if namespace else ResolutionScope.CLUSTER
    where = {"namespace": namespace} if namespace else {}
    return ResolvedReference(name=owner.name, **where, kind=owner.kind, uid=owner.uid, scope=scope)


@dataclass(frozen=True, slots=True)
class ProfileReconcile:
    """The decision about profiles of one scope.

    Attributes:
        controller: name of FW-201.
    """

    controller: str
    part: Part[Any]

    def __call__(self, profile: AnyProfile, view: View, now: datetime) -> Plan:
        config = resolve_config(view, profile.namespace or None, None)
        taint = gpu_taint_of(view, config)
        reach = Reach.of(config.spec, taint, is_of_cluster=not profile.namespace)
        match = match_hardware(profile, view, reach)
        provenance = provenance_of(profile, view)
        evaluation = evaluate(
            self.part.kind.model.components,
            (match.component,),
            generation=profile.metadata.generation,
            stored=profile.status.conditions,
            stored_status=profile.status.status,
            now=now,
            errors=profile_errors(profile.spec),
            extra=(_available(match), _deployable(profile)),
            failure=view.failure,
        )
        children, events = _cache(profile, view, config.spec.label_propagation, self.controller)
        return assemble(
            evaluation,
            status=status_json(evaluation, _fields(profile, match, provenance)),
            children=children,
            events=events,
        )


PROFILE: Final = ProfileReconcile("profile", PROFILES)
CLUSTER_PROFILE: Final = ProfileReconcile("cluster-profile", CLUSTER_PROFILES)


def _available(match: HardwareMatch) -> Desired:
    component = match.component
    # `NodesReady` has the same Event.
    reason, message = component.effective_reason, component.effective_message
    return condition(AVAILABLE, match.is_there, reason, message, Observability.SILENT)


def _deployable(profile: AnyProfile) -> Desired:
    if role_of(profile) is ProfileRole.DEPLOYABLE:
        message = "the profile has weights: services can use it"
        return condition(DEPLOYABLE, True, DEPLOYABLE, message, Observability.SILENT)
    message = "the profile has no weights: others are derived from it"
    return condition(DEPLOYABLE, False, BASE, message, Observability.SILENT)


def _fields(profile: AnyProfile, match: HardwareMatch, provenance: Provenance) -> JsonObject:
    return {
        "deployable": role_of(profile) is ProfileRole.DEPLOYABLE,
        "origin": provenance.origin.value,
        "sourceModel": None if provenance.model is None else to_json(provenance.model),
        "version": version_of_image(profile.spec.image) or None,
        "baseImage": _base_image(profile),
        "matchingNodes": match.nodes,
        "hardwareSummary": accelerator_summary(profile) or None,
        "resources": runtime_resources(profile, match.resource) or None,
        "resolvedNodeAffinity": match.affinity,
    }


def _base_image(profile: AnyProfile) -> str | None:
    """What the annotation says, as far as the status takes it: any client writes annotations."""
    given = profile.metadata.annotations.get(labels.ANNOTATION_BASE_IMAGE) or ""
    return given if 0 < len(given) <= MAX_STRING else None


def _cache(
    profile: AnyProfile, view: View, propagation: LabelPropagation | None, controller: str
) -> tuple[tuple[Child, ...], tuple[Event, ...]]:
    """The cache that a profile asks for, under its own name (PR-084)."""
    caching = profile.spec.caching if isinstance(profile, AIMProfile) else None
    wanted = caching is not None and caching.enabled and role_of(profile) is ProfileRole.DEPLOYABLE
    if caching is None or not wanted or not work_namespace(view, profile.namespace).usable:
        return (), ()
    found = view.get(PROFILE_CACHES, profile.namespace, profile.name)
    if found.error is not None:
        return (), ()
    if found.value is not None:
        owned = any(one.uid == profile.uid for one in found.value.metadata.owner_references)
        message = f"AIMProfileCache {profile.key} exists and is not of this profile; delete or rename it"
        return (), () if owned else (Event(EventType.WARNING, "ProfileCacheNameConflict", message, standing=True),)
    env = caching.env or profile.spec.container_env
    body: JsonObject = {
        "metadata": {
            "name": profile.name,
            "namespace": profile.namespace,
            "labels": child_labels({}, parent=profile, controller=controller, propagation=propagation),
        },
        "spec": {
            "profileName": profile.name,
            "profileScope": TemplateScope.NAMESPACE.value,
            **({"env": [to_json(variable) for variable in env]} if env else {}),
        },
    }
    return (Child(PROFILE_CACHES, kind_of(body, AIM_PROFILE_CACHE), mode=WriteMode.CREATE),), ()
