"""One pass over a profile set: its sources, their versions, and the profiles derived from them (PR-110 to PR-114)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from aim_discovery.profiles.catalogue import CatalogueError, Entry, catalogue_of
from aim_discovery.profiles.counting import NONE_MATCH, counts_of, managed_component
from aim_discovery.profiles.of_model import profile_scope
from aim_discovery.profiles.reconcile import ProfileSet
from aim_discovery.scopes import work_namespace
from aim_domain import (
    AIMProfile,
    AnyProfile,
    Floor,
    MinimumType,
    ModelScopeChoice,
    ProfileOrigin,
    ProfileRole,
    ProfileSelector,
    ResolvedConfig,
    VersionPolicy,
    child_labels,
    compare_versions,
    derived_spec,
    identity_of,
    labels,
    newest_first,
    profile_matches,
    resolve_config,
    set_errors,
    version_of,
)
from aim_domain.component_names import ComponentName
from aim_domain.naming import set_member_name
from aim_domain.parts import CLUSTER_PROFILE_SETS, CLUSTER_PROFILES, PROFILE_CATALOGUES, PROFILE_SETS, PROFILES
from controller_runtime import (
    Category,
    Child,
    ClassifiedError,
    Component,
    Delete,
    Index,
    JsonObject,
    Part,
    Plan,
    State,
    View,
    assemble,
    evaluate,
    kind_of,
    scoped,
    status_json,
    to_json,
)

SOURCE_FAILED: Final = "SourceLoadFailed"
_EVERY: Final = "copyable"


def _copyable(profile: AnyProfile) -> list[str]:
    given = profile.metadata.annotations.get(labels.ANNOTATION_COPYABLE)
    return [scoped(profile.namespace, _EVERY)] if given == labels.TRUE else []


COPYABLE: Final = Index(PROFILES, "copyable", _copyable)
COPYABLE_OF_CLUSTER: Final = Index(CLUSTER_PROFILES, "copyable", _copyable)


@dataclass(frozen=True, slots=True)
class Sources:
    """What a set derives from.

    Attributes:
        error: why it is not known.
    """

    profiles: tuple[AnyProfile, ...] = ()
    error: ClassifiedError | None = None


@dataclass(frozen=True, slots=True)
class SetReconcile:
    """The decision about sets of one scope.

    Attributes:
        controller: name of FW-201.
        system_namespace: where cluster sets find their ConfigMaps.
    """

    controller: str
    part: Part[Any]
    system_namespace: str

    def __call__(self, found: ProfileSet, view: View, now: datetime) -> Plan:
        config = resolve_config(view, found.namespace or None, None)
        kinds = profile_scope(found.namespace)
        sources = self._sources(found, view)
        chosen = of_version(sources.profiles, found)
        wanted = {child.name: child for child in self._children(found, chosen, config)}
        owned = view.select(kinds.by_owner, scoped(found.namespace, found.uid))
        known = sources.error is None and owned.error is None
        namespace = work_namespace(view, found.namespace)
        evaluation = evaluate(
            self.part.kind.model.components,
            (_component(sources, chosen, owned.items, wanted),),
            generation=found.metadata.generation,
            stored=found.status.conditions,
            stored_status=found.status.status,
            now=now,
            errors=(*namespace.errors, *set_errors(found.spec)),
            failure=view.failure,
        )
        # What cannot be read is no reason to delete what was derived from it.
        former = [one for one in owned.items if known and one.name not in wanted and not one.deleting]
        return assemble(
            evaluation,
            status=status_json(evaluation, {"managedProfiles": counts_of(owned.items)}),
            children=tuple(wanted.values()) if known and namespace.usable else (),
            deletes=tuple(
                Delete(kinds.profiles, one.namespace, one.name, one.uid, "the set derives no such profile any longer")
                for one in former
            ),
        )

    def _sources(self, found: ProfileSet, view: View) -> Sources:
        spec = found.spec
        selector = spec.selector or ProfileSelector()
        if spec.source_ref is not None:
            listed = _of_config_map(found.namespace or self.system_namespace, spec.source_ref.name, view)
            if listed.error is not None:
                return listed
            candidates: tuple[tuple[AnyProfile, ...], ...] = (listed.profiles,)
        else:
            local = view.select(COPYABLE, scoped(found.namespace, _EVERY)) if found.namespace else None
            if local is not None and local.error is not None:
                return Sources(error=local.error)
            of_namespace = selector.model_ref is not None and selector.model_ref.scope is ModelScopeChoice.NAMESPACE
            shared = None if of_namespace else view.select(COPYABLE_OF_CLUSTER, scoped(None, _EVERY))
            if shared is not None and shared.error is not None:
                return Sources(error=shared.error)
            candidates = (() if local is None else local.items, () if shared is None else shared.items)
        floor = Floor.of(selector, MinimumType.ANY)
        fitting = (
            tuple(one for one in scope if profile_matches(selector, one) and floor.admits(one)) for scope in candidates
        )
        return Sources(next((scope for scope in fitting if scope), ()))

    def _children(self, found: ProfileSet, sources: Sequence[AnyProfile], config: ResolvedConfig) -> list[Child]:
        spec, kinds = found.spec, profile_scope(found.namespace)
        identities = Counter(identity_of(spec.overrides, one) for one in sources)
        children: list[Child] = []
        for source in sorted(sources, key=lambda one: one.name):
            usual = identity_of(spec.overrides, source)
            # Several versions, or several sources of one id, differ by the name of the source.
            name = set_member_name(found.name, usual if identities[usual] == 1 else source.name)
            children.append(self._child(found, source, name, config, kinds.profiles))
        return children

    def _child(
        self, found: ProfileSet, source: AnyProfile, name: str, config: ResolvedConfig, part: Part[Any]
    ) -> Child:
        spec, given = found.spec, found.metadata.labels
        body: JsonObject = derived_spec(source, spec.overrides, spec.image or "")
        secrets = [to_json(secret) for secret in spec.image_pull_secrets]
        role = ProfileRole.DEPLOYABLE if body.get("modelSources") else ProfileRole.BASE
        of_model: dict[str, str] = {
            key: given[key] for key in (labels.SOURCE_MODEL, labels.SOURCE_MODEL_SCOPE) if key in given
        }
        own = {labels.PROFILE_ROLE: role.value, labels.PROFILE_ORIGIN: ProfileOrigin.DERIVED.value, **of_model}
        metadata: JsonObject = {
            "name": name,
            **({"namespace": found.namespace} if found.namespace else {}),
            "labels": child_labels(
                own, parent=found, controller=self.controller, propagation=config.spec.label_propagation
            ),
            "annotations": {
                labels.ANNOTATION_PROFILE_SOURCE: "copy",
                **({labels.ANNOTATION_BASE_IMAGE: source.status.base_image} if source.status.base_image else {}),
            },
        }
        body = body | {
            **({"imagePullSecrets": secrets} if secrets else {}),
            **({"serviceAccountName": spec.service_account_name} if spec.service_account_name else {}),
        }
        return Child(part, kind_of({"metadata": metadata, "spec": body}, part.kind))


def _of_config_map(namespace: str, name: str, view: View) -> Sources:
    """The profiles of a catalogue that a person, or a model, keeps (PR-112)."""
    found = view.get(PROFILE_CATALOGUES, namespace, name)
    if found.error is not None:
        return Sources(error=found.error)
    if found.value is None:
        label = f"{labels.COMPONENT}={labels.COMPONENT_PROFILE_CATALOGUE}"
        message = (
            f"ConfigMap {namespace}/{name} is not there, or lacks the label by which it is watched: "
            f"kubectl label configmap {name} -n {namespace} {label}"
        )
        return Sources(error=ClassifiedError(Category.MISSING_UPSTREAM, SOURCE_FAILED, message))
    try:
        catalogue = catalogue_of(found.value)
    except CatalogueError as error:
        message = f"ConfigMap {namespace}/{name}: {error}"
        return Sources(error=ClassifiedError(Category.INVALID_SPEC, SOURCE_FAILED, message))
    return Sources(tuple(_as_profile(one, catalogue.image, catalogue.base_image) for one in catalogue.entries))


def _as_profile(entry: Entry, image: str, base_image: str) -> AIMProfile:
    profile = entry.profile
    status = profile.status.model_copy(update={"base_image": base_image or None})
    return profile.model_copy(update={"spec": profile.spec.model_copy(update={"image": image}), "status": status})


def of_version(profiles: Sequence[AnyProfile], found: ProfileSet) -> tuple[AnyProfile, ...]:
    """Those of the versions that the policy takes (PR-114)."""
    policy, version = found.spec.version_policy, found.spec.version
    if policy is VersionPolicy.ALL:
        return tuple(profiles)
    if policy is VersionPolicy.PINNED:
        return tuple(one for one in profiles if version_of(one) == version)
    latest: dict[tuple[object, ...], list[AnyProfile]] = {}
    for one in sorted(profiles, key=lambda one: newest_first(version_of(one))):
        spec = one.spec
        shape = (
            *(spec.accelerator_model, spec.accelerator_count, spec.accelerator_partitioning_mode),
            *(spec.precision, spec.metric, spec.engine),
        )
        members = latest.setdefault(shape, [])
        if not members or compare_versions(version_of(members[0]), version_of(one)) == 0:
            members.append(one)
    return tuple(one for members in latest.values() for one in members)


def _component(
    sources: Sources, chosen: Sequence[AnyProfile], owned: Sequence[AnyProfile], wanted: dict[str, Child]
) -> Component:
    name = ComponentName.DERIVATION
    if sources.error is not None:
        reason = sources.error.reason
        return Component(name, State.DEGRADED, reason, sources.error.message, (sources.error,))
    if not sources.profiles:
        message = "no profile matches spec.selector; only those with annotation profile-copyable are derived from"
        return Component(name, State.NOT_AVAILABLE, NONE_MATCH, message)
    if not chosen:
        versions = ", ".join(sorted({version_of(one) or "none" for one in sources.profiles}))
        message = f"{len(sources.profiles)} profile(s) match, but none has the version; there are {versions}"
        return Component(name, State.NOT_AVAILABLE, NONE_MATCH, message)
    kept = [one for one in owned if one.name in wanted]
    if len(kept) < len(wanted):
        return Component(name, State.PROGRESSING, "Creating", f"{len(wanted) - len(kept)} profile(s) are being created")
    return managed_component(name, kept)


def profile_set(system_namespace: str) -> SetReconcile:
    """The decision about sets of a namespace."""
    return SetReconcile("profile-set", PROFILE_SETS, system_namespace)


def cluster_profile_set(system_namespace: str) -> SetReconcile:
    """The decision about sets of the cluster."""
    return SetReconcile("cluster-profile-set", CLUSTER_PROFILE_SETS, system_namespace)
