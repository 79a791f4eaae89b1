"""The profile of a service: named or selected, laid over with the service's overrides, and whether it can be used."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from aim_domain import (
    AIMClusterProfile,
    AIMModel,
    AIMProfile,
    AIMService,
    AIMServiceTemplate,
    AnyProfile,
    Floor,
    InvalidProfileError,
    LabelPropagation,
    MinimumType,
    ModelScopeChoice,
    ProfileChoice,
    ProfileModelRef,
    ProfileRole,
    ProfileSelector,
    ResolutionScope,
    ResolvedReference,
    as_model,
    as_template,
    child_labels,
    choose,
    derived_spec,
    is_changed,
    labels,
    profile_file,
    role_of,
)
from aim_domain.component_names import ComponentName
from aim_domain.kinds import AIM_PROFILE
from aim_domain.naming import optional_label_value, overlay_name, profile_file_name
from aim_domain.parts import CLUSTER_MODELS, CLUSTER_PROFILES, MODELS, PROFILES
from aim_serving.indexes import (
    CLUSTER_PROFILES_BY_AIM_ID,
    CLUSTER_PROFILES_BY_MODEL,
    PROFILES_BY_AIM_ID,
    PROFILES_BY_MODEL,
    PROFILES_BY_OWNER,
)
from aim_serving.model import ModelResult
from aim_serving.references import Model, name_of, names_of, scope_of
from aim_serving.volumes import ProfileMount, own_mount
from controller_runtime import (
    Category,
    Child,
    ClassifiedError,
    Component,
    Condition,
    ConditionStatus,
    Delete,
    Dependency,
    Event,
    EventType,
    Lookup,
    Selection,
    State,
    StatusValue,
    View,
    find_condition,
    kind_of,
    ready_words,
    scoped,
)

DISCOVERED: Final = "ProfilesDiscovered"
"""Condition of models whose images are read for profiles; discovery writes it (PR-097)."""
NOT_FOUND: Final = "ProfileNotFound"
NOT_READY: Final = "ProfileNotReady"
BASE: Final = "BaseProfile"
RESOLVED: Final = "ProfileResolved"
INVALID: Final = "ProfileConfigInvalid"
AMBIGUOUS: Final = "ProfileSelectorAmbiguous"
REBOUND: Final = "ProfileRebound"

_SEED: Final = "/"
"""Between scope and name in the annotation of an overlay."""


@dataclass(frozen=True, slots=True)
class ProfileUse:
    """The profile of this pass, and what using it asks for.

    Attributes:
        profile: the one in effect, Ready or not; that of the overrides where there are some.
        seed: the one that the overrides are laid on, else ``profile``.
        message: why there is none, when that is not an error.
        note: what else there is to say of the selection.
        children: the profile of the overrides.
        deletes: those of former overrides.
        mount: the file of a profile that is Ready; an error where none can be written.
    """

    profile: AnyProfile | None = None
    seed: AnyProfile | None = None
    message: str = ""
    note: str = ""
    error: ClassifiedError | None = None
    children: tuple[Child, ...] = ()
    deletes: tuple[Delete, ...] = ()
    events: tuple[Event, ...] = ()
    mount: ProfileMount | ClassifiedError | None = None

    @property
    def template(self) -> AIMServiceTemplate | None:
        """The profile where a template is expected (PR-070)."""
        return None if self.profile is None or self.error is not None else as_template(self.profile)

    @property
    def model(self) -> AIMModel | None:
        """The image of the profile where a model is expected."""
        return None if self.profile is None or self.error is not None else as_model(self.profile)

    @property
    def is_ready(self) -> bool:
        """Whether the profile can be used: its hardware is there, and it has weights."""
        found = self.profile
        return found is not None and found.status.status is StatusValue.READY and role_of(found) is _DEPLOYABLE


_DEPLOYABLE: Final = ProfileRole.DEPLOYABLE


def use_profile(
    view: View, service: AIMService, model: ModelResult, propagation: LabelPropagation | None, *, in_use: str
) -> ProfileUse:
    """The profile that the service names, or the one that its selection leads to (PR-040 to PR-053).

    Args:
        model: that of ``spec.model``; without one nothing was searched.
        in_use: the profile that the InferenceService was made of; an overlay of that name is not let go yet.
    """
    found = _seed(view, service, model)
    if found.profile is None:
        return found
    if role_of(found.profile) is not _DEPLOYABLE:
        message = f"{name_of(found.profile)} is a base profile without weights; derive one with modelSources from it"
        return replace(found, error=ClassifiedError(Category.INVALID_SPEC, BASE, message))
    found = _with_overlay(view, service, found, propagation)
    return replace(
        found,
        deletes=_former_overlays(view, service, found, in_use),
        # Said once: with a profile that is Ready the status names it, and it is kept from then on.
        events=found.events if found.is_ready else (),
        mount=_mount(service, found, propagation),
    )


# Which one


def _seed(view: View, service: AIMService, model: ModelResult) -> ProfileUse:
    given = service.spec.profile
    if given is not None and given.name:
        return _by_name(view, service, given.name)
    if model.error is not None:
        return ProfileUse(message="no profile can be selected before the model is resolved")
    selector = (given.selector if given is not None else None) or ProfileSelector()
    if _asks_for_model(service):
        if model.model is None:
            return ProfileUse(message="no profile can be selected before the model is resolved")
        selector = selector.model_copy(update={"model_ref": _reference_to(model.model)})
    local, in_cluster = _candidates(view, service, selector)
    error = local.error or in_cluster.error
    if error is not None:
        return ProfileUse(error=error)
    floor = Floor.of(selector, MinimumType.OPTIMIZED)
    every: tuple[AnyProfile, ...] = (*local.items, *in_cluster.items)
    bound = _binding(view, service)
    if bound.error is not None:
        return ProfileUse(error=bound.error)
    kept = bound.value
    if kept is not None and not _is_forced(service) and _still_fits(kept, every, selector, floor):
        return ProfileUse(kept, kept)
    choice = choose(local.items, in_cluster.items, selector, floor)
    if choice.chosen is None:
        return _none(view, service, choice, selector)
    return _choice_of(service, choice, choice.chosen, kept)


def _asks_for_model(service: AIMService) -> bool:
    model = service.spec.model
    return bool(model.name or model.image)


def _reference_to(model: Model) -> ProfileModelRef:
    """A name alone means the namespace's profiles or the cluster's; a model that was found says which (PR-048)."""
    scope = ModelScopeChoice.NAMESPACE if model.namespace else ModelScopeChoice.CLUSTER
    return ProfileModelRef(name=model.name, scope=scope)


def _by_name(view: View, service: AIMService, name: str) -> ProfileUse:
    """The namespace's profile, else the cluster's; without floor and ranking (PR-049)."""
    local = view.get(PROFILES, service.namespace, name)
    if local.error is not None:
        return ProfileUse(error=local.error)
    found: AnyProfile | None = local.value
    if found is None:
        in_cluster = view.get(CLUSTER_PROFILES, None, name)
        if in_cluster.error is not None:
            return ProfileUse(error=in_cluster.error)
        found = in_cluster.value
    if found is None:
        where = f"neither AIMProfile {service.namespace}/{name} nor AIMClusterProfile {name} exists"
        message = f"{where}; create it or correct spec.profile.name"
        return ProfileUse(error=ClassifiedError(Category.MISSING_UPSTREAM, NOT_FOUND, message))
    return ProfileUse(found, found)


def _candidates(
    view: View, service: AIMService, selector: ProfileSelector
) -> tuple[Selection[AIMProfile], Selection[AIMClusterProfile]]:
    """By the model when one is given, else by the AIM id; overlays belong to their service alone."""
    if selector.model_ref is not None:
        name, choice = selector.model_ref.name, selector.model_ref.scope
        of_namespace = choice is not ModelScopeChoice.CLUSTER
        of_cluster = choice is not ModelScopeChoice.NAMESPACE
        return (
            view.select(PROFILES_BY_MODEL, scoped(service.namespace, name)) if of_namespace else Selection(),
            view.select(CLUSTER_PROFILES_BY_MODEL, scoped(None, name)) if of_cluster else Selection(),
        )
    aim_id = selector.aim_id or ""
    local = view.select(PROFILES_BY_AIM_ID, scoped(service.namespace, aim_id))
    return local, view.select(CLUSTER_PROFILES_BY_AIM_ID, scoped(None, aim_id))


def _is_forced(service: AIMService) -> bool:
    return bool(service.metadata.annotations.get(labels.ANNOTATION_REBIND))


def _binding(view: View, service: AIMService) -> Lookup[AnyProfile]:
    """The profile that an earlier pass resolved to: of an overlay the one below it, which it names (PR-051)."""
    reference = service.status.resolved_profile
    if reference is None or not reference.name:
        return Lookup()
    found = _get(view, service, reference.scope is ResolutionScope.CLUSTER, reference.name)
    overlay = found.value
    seed = overlay.metadata.annotations.get(labels.ANNOTATION_OVERLAY_SEED) if overlay is not None else None
    if seed is None:
        return found
    scope, _, name = seed.partition(_SEED)
    return _get(view, service, scope == ResolutionScope.CLUSTER.value, name)


def _get(view: View, service: AIMService, of_cluster: bool, name: str) -> Lookup[AnyProfile]:
    if of_cluster:
        in_cluster = view.get(CLUSTER_PROFILES, None, name)
        return Lookup(in_cluster.value, in_cluster.error)
    local = view.get(PROFILES, service.namespace, name)
    return Lookup(local.value, local.error)


def _still_fits(kept: AnyProfile, every: tuple[AnyProfile, ...], selector: ProfileSelector, floor: Floor) -> bool:
    """Whether the selection could lead to it, if there were no better one (PR-050)."""
    alone = tuple(one for one in every if one.uid == kept.uid)
    return bool(alone) and choose(alone, (), selector, floor).chosen is not None


def _none(view: View, service: AIMService, choice: ProfileChoice, selector: ProfileSelector) -> ProfileUse:
    """Nothing to choose: the image is still being read, or the selection leads nowhere (PR-047)."""
    reference = selector.model_ref
    model = _model_of(view, service, reference) if reference is not None else None
    if reference is not None and model is None:
        message = f"no AIMModel or AIMClusterModel is called {reference.name}; create it or correct modelRef"
        return ProfileUse(error=ClassifiedError(Category.MISSING_UPSTREAM, NOT_FOUND, message))
    read = find_condition(model.status.conditions, DISCOVERED) if model is not None else None
    if model is not None and read is not None and read.status is not ConditionStatus.TRUE and not choice.below:
        message = f"the profiles of {name_of(model)} are not known yet: {read.reason}: {read.message}"
        return ProfileUse(message=message)
    return ProfileUse(error=ClassifiedError(Category.MISSING_UPSTREAM, NOT_FOUND, _explain(choice, model, read)))


def _model_of(view: View, service: AIMService, reference: ProfileModelRef) -> Model | None:
    local = shared = None
    if reference.scope is not ModelScopeChoice.CLUSTER:
        local = view.get(MODELS, service.namespace, reference.name).value
    if local is None and reference.scope is not ModelScopeChoice.NAMESPACE:
        shared = view.get(CLUSTER_MODELS, None, reference.name).value
    return local if local is not None else shared


def _choice_of(service: AIMService, choice: ProfileChoice, chosen: AnyProfile, kept: AnyProfile | None) -> ProfileUse:
    events: list[Event] = []
    note = ""
    if choice.tied:
        others = names_of(choice.tied)
        note = f"{others} would do as well; name one in spec.profile.name"
        message = f"{name_of(chosen)} is used by its name, as {others} would do as well"
        events.append(Event(EventType.WARNING, AMBIGUOUS, message))
    before = service.status.resolved_profile
    if before is not None and before.name and (kept is None or kept.uid != chosen.uid):
        events.append(Event(EventType.NORMAL, REBOUND, _why_rebound(before, chosen, kept, service)))
    return ProfileUse(chosen, chosen, note=note, events=tuple(events))


def _explain(choice: ProfileChoice, model: Model | None, read: Condition | None) -> str:
    whose = f" of {name_of(model)}" if model is not None else ""
    if not choice.below and model is not None and read is None and model.spec.profiles is None:
        where = f" -n {model.namespace}" if model.namespace else ""
        ask = f"kubectl annotate {model.kind.lower()} {model.name}{where} {labels.ANNOTATION_PIPELINE}=profile"
        return f"the profiles{whose} are not read: set profiles.enabled in the chart, or ask for these: {ask}"
    if not choice.below:
        return f"no profile{whose} matches spec.profile.selector: change it, or create an AIMProfile"
    names = names_of(choice.below)
    return (
        f"{len(choice.below)} profile(s){whose} match, but are below {choice.floor}: {names}; "
        "set spec.profile.selector.minimumType to use one of them"
    )


def _why_rebound(before: ResolvedReference, chosen: AnyProfile, kept: AnyProfile | None, service: AIMService) -> str:
    why = f"{before.name} is gone" if kept is None else f"{before.name} is not what is asked for any longer"
    if kept is not None and _is_forced(service):
        why = f"annotation {labels.ANNOTATION_REBIND} is set"
    return f"{name_of(chosen)} takes the place of {before.name}: {why}"


# Overrides


def _with_overlay(
    view: View, service: AIMService, found: ProfileUse, propagation: LabelPropagation | None
) -> ProfileUse:
    """The profile of the overrides, which discovery looks at like at every other (PR-060)."""
    seed, overrides = found.seed, service.spec.profile_overrides
    if seed is None or overrides is None or not is_changed(overrides):
        return found
    name = overlay_name(seed.name, service.name, service.uid)
    present = view.get(PROFILES, service.namespace, name)
    if present.error is not None:
        return replace(found, profile=None, error=present.error)
    child = _overlay(service, name, seed, propagation)
    if present.value is None:
        message = f"AIMProfile {name} is being created for spec.profileOverrides"
        return replace(found, profile=None, message=message, children=(child,))
    outdated = present.value.status.observed_generation != present.value.metadata.generation
    overlay = present.value
    if outdated and overlay.status.status is StatusValue.READY:
        # What its status says is of former overrides.
        overlay = overlay.model_copy(
            update={"status": overlay.status.model_copy(update={"status": StatusValue.PENDING})}
        )
    return replace(found, profile=overlay, children=(child,))


def _overlay(service: AIMService, name: str, seed: AnyProfile, propagation: LabelPropagation | None) -> Child:
    own = {labels.PROFILE_ROLE: _DEPLOYABLE.value}
    annotations = {
        labels.ANNOTATION_OVERLAY_SERVICE: service.name,
        labels.ANNOTATION_OVERLAY_SEED: f"{scope_of(seed).value}{_SEED}{seed.name}",
        **({labels.ANNOTATION_BASE_IMAGE: seed.status.base_image} if seed.status.base_image else {}),
    }
    metadata = {
        "name": name,
        "namespace": service.namespace,
        "labels": child_labels(own, parent=service, controller="service", propagation=propagation),
        "annotations": annotations,
    }
    spec = derived_spec(seed, service.spec.profile_overrides)
    return Child(PROFILES, kind_of({"metadata": metadata, "spec": spec}, AIM_PROFILE))


def _former_overlays(view: View, service: AIMService, found: ProfileUse, in_use: str) -> tuple[Delete, ...]:
    """Overlays of the service that are not in effect any longer, once another profile is Ready (PR-064)."""
    current = found.profile
    if current is None or not found.is_ready or service.status.resolved_profile is None:
        return ()
    owned = view.select(PROFILES_BY_OWNER, scoped(service.namespace, service.uid)).items
    return tuple(
        Delete(PROFILES, one.namespace, one.name, one.uid, "its overrides are not those of the service any longer")
        for one in owned
        if labels.ANNOTATION_OVERLAY_SERVICE in one.metadata.annotations
        and one.uid != current.uid
        and not one.deleting
        and optional_label_value(one.name) != in_use
    )


def _mount(
    service: AIMService, found: ProfileUse, propagation: LabelPropagation | None
) -> ProfileMount | ClassifiedError | None:
    if found.profile is None or not found.is_ready:
        return None
    try:
        rendered = profile_file(found.profile)
    except InvalidProfileError as fault:
        return ClassifiedError(Category.INVALID_SPEC, INVALID, f"{name_of(found.profile)}: {fault}")
    return own_mount(
        service,
        as_template(found.profile),
        profile_file_name(service.name),
        rendered,
        propagation=propagation,
    )


# How it is

_NOT_READY: Final[Mapping[StatusValue, tuple[State, str]]] = MappingProxyType(
    {
        StatusValue.PENDING: (State.PROGRESSING, "is not ready yet"),
        StatusValue.PROGRESSING: (State.PROGRESSING, "is not ready yet"),
        StatusValue.NOT_AVAILABLE: (State.NOT_AVAILABLE, "is not available"),
        StatusValue.DEGRADED: (State.DEGRADED, "is degraded"),
        StatusValue.FAILED: (State.FAILED, "has failed"),
    }
)


def profile_component(use: ProfileUse, stored: ResolvedReference | None, *, running: bool) -> Component:
    """How the profile is.

    Args:
        stored: what an earlier pass resolved to.
        running: whether the InferenceService exists; it is left as it is while no profile is there (PR-053).
    """
    error = use.error
    if error is not None and running and error.reason == NOT_FOUND:
        # It goes on serving, which an error would hide.
        message = f"{error.message}; the InferenceService stays as it is until a profile is found"
        return _component(State.DEGRADED, NOT_FOUND, message)
    if error is not None:
        return Component(
            ComponentName.PROFILE, State.FAILED, error.reason, error.message, (error,), Dependency.UPSTREAM
        )
    if use.profile is None:
        if running and stored is not None and not use.children:
            return _component(State.READY, RESOLVED, f"using profile {stored.name} as resolved before")
        return _component(State.PROGRESSING, NOT_READY, use.message or "no profile is resolved yet")
    status = use.profile.status.status
    if status is StatusValue.READY:
        note = f"; {use.note}" if use.note else ""
        return _component(State.READY, RESOLVED, f"using {name_of(use.profile)}{note}")
    state, words = _NOT_READY.get(status, (State.PROGRESSING, f"is {status.value}"))
    quoted = ready_words(use.profile.status.conditions) if state is not State.PROGRESSING else ""
    return _component(state, NOT_READY, f"{name_of(use.profile)} {words}{quoted}")


def _component(state: State, reason: str, message: str) -> Component:
    return Component(ComponentName.PROFILE, state, reason, message, (), Dependency.UPSTREAM)
