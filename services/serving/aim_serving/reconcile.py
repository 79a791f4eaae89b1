"""One pass over an AIMService (serving.md section 4): look up, decide, plan, report."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from aim_domain import (
    AdapterMode,
    AIMService,
    InferenceService,
    ResolvedConfig,
    RolloutStatus,
    RoutingSettings,
    pipeline_errors,
    resolve_config,
    routing_settings,
    service_errors,
    uses_profile,
)
from aim_domain.component_names import ComponentName
from aim_domain.parts import ARTIFACT_CLAIMS, ARTIFACTS, NAMESPACES
from aim_serving.adapters import (
    AdaptersJudged,
    SeenAdapters,
    adapter_mount,
    find_adapters,
    judge_adapters,
)
from aim_serving.autoscaling import awakening, scaler_removal
from aim_serving.containers import contradiction
from aim_serving.dry_run import dry_run_condition, former_plan, is_dry_run, report_instead, waiting_for_user
from aim_serving.indexes import PODS_BY_WORKLOAD, SERVICES_BY_OWNER
from aim_serving.inference_service import (
    OF_SCALE,
    ModelPart,
    asked_for,
    build_inference_service,
    is_kept,
    is_restricted,
    notes,
    resources_of,
)
from aim_serving.model import ModelResult, find_model, model_component
from aim_serving.profile import ProfileUse, profile_component, use_profile
from aim_serving.references import Cache, Model, Template, is_ready, name_of
from aim_serving.replicas import autoscaling_in_effect, replicas_in_effect, runtime_status
from aim_serving.rollout import (
    Course,
    Versions,
    build_candidate,
    candidate_name,
    decide,
    forget_request,
    former_candidates,
    is_candidate,
    pod_template_of,
    rolled_out,
    runs_as_wanted,
)
from aim_serving.rollout_checks import read_checks
from aim_serving.status import (
    Beginning,
    cache_json,
    references_json,
    route_component,
    runtime_json,
    service_status,
    together,
)
from aim_serving.template import TemplateResult, TemplateUse, ready_template, template_component, use_template
from aim_serving.template_cache import (
    PROFILE_FAMILY,
    TEMPLATE_FAMILY,
    CacheState,
    CacheVerdict,
    Family,
    env_patches,
    find_cache,
    judge_cache,
    mode_of,
    new_cache,
)
from aim_serving.volumes import (
    ADAPTER_VOLUME,
    ProfileMount,
    Volumes,
    claims_of_cache,
    claims_of_workload,
    is_made_of,
    lacks_volumes,
    made_of,
    profile_mount,
    volumes_of_cache,
    volumes_of_workload,
)
from aim_serving.workload import Observation, Workload, observe_workload, read_workload
from controller_runtime import (
    Category,
    Child,
    ClassifiedError,
    Component,
    Delete,
    Effect,
    Evaluation,
    Lookup,
    Patch,
    Plan,
    State,
    StatusValue,
    View,
    assemble,
    evaluate,
    find_condition,
    scoped,
    status_json,
    to_json,
)
from controller_runtime.core import LocalObjectReference

CONTROLLER = "service"


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything a pass looked up, and what is wrong with the service itself.

    Attributes:
        profile: the file that is mounted.
        chosen: the profile of a service that is served by one; it stands for template and model, too (PR-070).
    """

    config: ResolvedConfig
    faults: tuple[ClassifiedError, ...]
    routing: RoutingSettings
    workload: Workload
    model: ModelResult
    template: TemplateUse
    cache: Lookup[Cache]
    profile: ProfileMount | None = None
    chosen: ProfileUse | None = None
    adapters: SeenAdapters | None = None

    @property
    def ready_template(self) -> Template | None:
        return ready_template(self.template.result)

    @property
    def image_model(self) -> Model | None:
        """What has the image: the profile of a service that is served by one, else its model."""
        return self.model.model if self.chosen is None else self.chosen.model

    @property
    def family(self) -> Family:
        """The kind of its cache."""
        return TEMPLATE_FAMILY if self.chosen is None else PROFILE_FAMILY

    @property
    def running(self) -> InferenceService | None:
        return self.workload.found

    @property
    def moving_from(self) -> str:
        """The template that the InferenceService was made of, if the service has another one by now (SV-171)."""
        template, running = self.ready_template, self.running
        if template is None or running is None or is_made_of(running, template):
            return ""
        return made_of(running)


@dataclass(frozen=True, slots=True)
class WantedChildren:
    """What there should be besides what the template brings about.

    Attributes:
        inputs: the model and the cache that the service makes itself.
        copy: of the profile, for the InferenceService.
        workload: the InferenceService, when its gate is open (SV-140…SV-143).
        repairs: of the cache's variables.
        remembered: patches of the service itself.
        candidate: the AIMService of a new version that is rolled out.
        adapters: what is downloaded for them; last, so that the model has what it needs whatever becomes of these.
        former: candidates of versions that are not.
        course: of the rollout; ``None`` without one.
        checks: what is to be read about the new version.
    """

    inputs: tuple[Child, ...]
    copy: Child | None
    workload: Child | None
    repairs: tuple[Patch, ...]
    remembered: tuple[Patch, ...] = ()
    candidate: Child | None = None
    adapters: tuple[Child, ...] = ()
    former: tuple[Delete, ...] = ()
    course: Course | None = None
    checks: tuple[Effect, ...] = ()

    @property
    def children(self) -> tuple[Child, ...]:
        own = (self.copy, self.workload, self.candidate)
        return (*self.inputs, *(child for child in own if child is not None), *self.adapters)


@dataclass(frozen=True, slots=True)
class Health:
    """How it stands.

    Attributes:
        retries: of a failed cache, as the status counts them from now on.
    """

    observed: Observation
    cache: CacheVerdict
    evaluation: Evaluation
    retries: int
    adapters: AdaptersJudged


def reconcile(service: AIMService, view: View, now: datetime) -> Plan:
    """The plan of one pass; nothing is decided from the order or the content of notifications (SV-003)."""
    seen = look_up(view, service, now)
    wanted = _roll_out(view, service, seen, _hand_over(service, seen, want(view, service, seen)), now)
    judged = judge(view, service, seen, wanted, now)
    plan = report(view, service, seen, wanted, judged, now=now)
    return report_instead(view, service, plan) if is_dry_run(service) else plan


def look_up(view: View, service: AIMService, now: datetime) -> Situation:
    """Steps 5 to 9: with an unreadable InferenceService nothing upstream is resolved (SV-044, FW-112)."""
    config = resolve_config(view, service.namespace, service.spec.runtime_config_name)
    workload = read_workload(view, service)
    propagation = config.spec.label_propagation
    in_use = made_of(workload.found) if workload.found is not None else ""
    model, template, chosen = ModelResult(), TemplateUse(TemplateResult()), None
    if uses_profile(service):
        if workload.unreadable is None and (service.spec.model.name or service.spec.model.image):
            model = find_model(view, service, propagation)
        if workload.unreadable is None:
            chosen = use_profile(view, service, model, propagation, in_use=in_use)
        else:
            chosen = ProfileUse()
        template = TemplateUse(TemplateResult(chosen.template))
    elif workload.unreadable is None:
        model = find_model(view, service, propagation)
        template = use_template(view, service, model.model, propagation, in_use=in_use, now=now)
    profile = _profile(service, template.result, config) if chosen is None else chosen.mount
    image_model = model.model if chosen is None else chosen.model
    if isinstance(profile, ClassifiedError):
        workload = replace(workload, invalid=profile)
    elif workload.invalid is None:
        workload = replace(workload, invalid=_resources_fault(service, template.result, image_model, config))
    return Situation(
        config=config,
        faults=(*pipeline_errors(service), *service_errors(service.spec)),
        routing=routing_settings(service, config.spec),
        workload=workload,
        model=model,
        template=template,
        cache=find_cache(
            view, service, template.result.template, TEMPLATE_FAMILY if chosen is None else PROFILE_FAMILY
        ),
        profile=None if isinstance(profile, ClassifiedError) else profile,
        chosen=chosen,
        adapters=find_adapters(view, service, config.spec, workload.found) if _adapts(service, workload) else None,
    )


def _adapts(service: AIMService, workload: Workload) -> bool:
    """Whether it has adapters, or had some; all others are spared the rest (LA-001)."""
    if workload.unreadable is not None:
        return False
    spec, found = service.spec, workload.found
    if spec.adapters or spec.adapter_mode is AdapterMode.DYNAMIC or service.status.adapters:
        return True
    return found is not None and any(volume.name == ADAPTER_VOLUME for volume in found.spec.predictor.volumes)


def _profile(
    service: AIMService, found: TemplateResult, config: ResolvedConfig
) -> ProfileMount | ClassifiedError | None:
    template = ready_template(found)
    return None if template is None else profile_mount(service, template, config.spec.label_propagation)


def _resources_fault(
    service: AIMService, found: TemplateResult, model: Model | None, config: ResolvedConfig
) -> ClassifiedError | None:
    """Merged requests above limits, which no API server admits in a pod (SV-309)."""
    template = ready_template(found)
    if template is None or model is None:
        return None
    why = contradiction(
        template.status.resolved_hardware,
        (resources_of(config.spec), model.spec.resources, template.spec.resources, service.spec.resources),
        ("the runtime config", name_of(model), name_of(template), f"AIMService {service.key}"),
        usual_gpu=config.pods.gpu_resource,
    )
    return ClassifiedError(Category.INVALID_SPEC, "InvalidSpec", why) if why else None


# What there should be


def want(view: View, service: AIMService, seen: Situation) -> WantedChildren:
    """Each child when its gate is open (SV-122, SV-130, SV-140…SV-143)."""
    workload = _workload_child(view, service, seen)
    return WantedChildren(
        inputs=(
            *(child for child in (seen.model.create, _cache_child(view, service, seen)) if child is not None),
            # After the weights, which compete with it for storage.
            *(seen.adapters.disks if seen.adapters is not None and _volumes(view, seen) is not None else ()),
        ),
        copy=seen.profile.copy if seen.profile is not None and workload is not None else None,
        workload=workload,
        repairs=env_patches(service, seen.ready_template, seen.cache.value),
        adapters=seen.adapters.downloads if seen.adapters is not None and workload is not None else (),
    )


def _hand_over(service: AIMService, seen: Situation, wanted: WantedChildren) -> WantedChildren:
    """An InferenceService that the existing Go operator left stays until the service asks for another (SV-302)."""
    template, model = seen.ready_template, seen.image_model
    if wanted.workload is None:
        return wanted
    asked = "" if template is None or model is None else asked_for(service, template, model, seen.config)
    wanted = replace(wanted, remembered=notes(service, seen.running, asked))
    return replace(wanted, copy=None, workload=None) if is_kept(service, seen.running, asked) else wanted


def _roll_out(
    view: View, service: AIMService, seen: Situation, wanted: WantedChildren, now: datetime
) -> WantedChildren:
    """With a rollout the InferenceService stays until the new version beside it has proven itself (SV-340)."""
    rollout, stored = service.spec.rollout, service.status.rollout
    if rollout is None and stored is None:
        return wanted
    if seen.workload.unreadable is not None:
        # Whether there is an InferenceService is not known: what the status says of the rollout stays.
        return wanted if stored is None else replace(wanted, course=Course(stored, held=True))
    owned = view.select(SERVICES_BY_OWNER, scoped(service.namespace, service.uid)).items
    beside = tuple(one for one in owned if is_candidate(one, service))
    if rollout is None or seen.running is None:
        return replace(wanted, former=former_candidates(beside, None))
    checked = read_checks(view, service, stored)
    versions = replace(_versions(view, service, seen, wanted, beside), exceeded=checked.exceeded, unread=checked.unread)
    if stored is None and not versions.wanted:
        return wanted
    course = decide(service, rollout, versions, now)
    state = course.status
    if is_dry_run(service):
        # Nothing is made, so no step begins and no time runs out.
        course = replace(course, status=stored or RolloutStatus(running=versions.adopted))
    return replace(
        wanted,
        copy=None if course.held else wanted.copy,
        workload=None if course.held else wanted.workload,
        # With another spec, whose version is not known yet, the one of the former spec stays as it is.
        candidate=build_candidate(service, rollout, state.revision, seen.config.spec.label_propagation)
        if course.beside and versions.wanted == state.revision
        else None,
        former=former_candidates(beside, state.candidate),
        remembered=(*wanted.remembered, *forget_request(service)),
        course=course,
        checks=checked.effects,
    )


def _versions(
    view: View, service: AIMService, seen: Situation, wanted: WantedChildren, beside: Sequence[AIMService]
) -> Versions:
    template, model, running, body = seen.ready_template, seen.image_model, seen.running, wanted.workload
    version = ""
    if template is not None and model is not None and body is not None:
        version = asked_for(service, template, model, seen.config, OF_SCALE)
    name = candidate_name(service, version) if version else (service.status.rollout or RolloutStatus()).candidate
    pods = view.select(PODS_BY_WORKLOAD, scoped(service.namespace, seen.workload.name)).items
    scaling = seen.workload.scaling
    return Versions(
        wanted=version,
        adopted=version if running is not None and body is not None and runs_as_wanted(running, body.body) else "",
        candidate=next((one for one in beside if one.name == name), None),
        pods=tuple(pod for pod in pods if not pod.deleting),
        template=pod_template_of(body.body) if body is not None else "",
        at_zero=scaling is not None and scaling.minimum == 0,
    )


def _cache_child(view: View, service: AIMService, seen: Situation) -> Child | None:
    """A cache is planned when the template is Ready and none is usable (SV-122, SV-130)."""
    template = seen.ready_template
    if template is None or seen.cache.value is not None or seen.cache.error is not None:
        return None
    return new_cache(view, service, template, seen.config.spec)


def _workload_child(view: View, service: AIMService, seen: Situation) -> Child | None:
    """The InferenceService, when its gate is open (SV-140…SV-143)."""
    template, workload = seen.ready_template, seen.workload
    if template is None or workload.scaling is None or workload.invalid is not None or not workload.name:
        return None
    if workload.left is not None:
        return None
    if seen.running is None and seen.adapters is not None and seen.adapters.disk.is_awaited:
        return None
    model = _model_part(seen)
    volumes = _volumes(view, seen)
    sources = [source.source_uri for source in (*template.spec.model_sources, *template.status.model_sources)]
    namespace = view.get(NAMESPACES, None, service.namespace)
    if model is None or volumes is None or namespace.error is not None:
        return None
    return build_inference_service(
        service,
        workload.name,
        template,
        model=model,
        config=seen.config.spec_for(sources, (*template.spec.env, *service.spec.env)),
        scaling=workload.scaling,
        volumes=volumes,
        pods=seen.config.pods,
        profile=seen.profile,
        adapters=None if seen.adapters is None else adapter_mount(service, template, seen.adapters),
        restricted=is_restricted(namespace.value),
    )


def _model_part(seen: Situation) -> ModelPart | None:
    """Without the model's object its image, resources and secrets are unknown: what runs stays as it is (SV-143)."""
    model = seen.image_model
    if model is None or (seen.running is None and not is_ready(model)):
        return None
    of_namespace = (LocalObjectReference(name=name) for name in seen.config.pull_secrets)
    return ModelPart(model.spec.image, model.spec.resources, (*model.spec.image_pull_secrets, *of_namespace))


def _volumes(view: View, seen: Situation) -> Volumes | None:
    cache, running = seen.cache.value, seen.running
    ready = cache is not None and cache.status.status is StatusValue.READY and not lacks_volumes(cache)
    if running is None or seen.moving_from:
        return volumes_of_cache(cache) if cache is not None and ready else None
    if cache is not None and ready and _lost_claims(view, running, cache):
        return volumes_of_cache(cache)
    return volumes_of_workload(running)


def _lost_claims(view: View, running: InferenceService, cache: Cache) -> bool:
    """Whether a mounted claim is gone for good while the rebuilt cache has others (SV-173)."""
    mounted = claims_of_workload(running)
    if mounted == claims_of_cache(cache):
        return False
    found = [view.get(ARTIFACT_CLAIMS, running.namespace, claim) for claim in mounted]
    return any(one.error is None and (one.value is None or one.value.deleting) for one in found)


def _deleted_in_use(view: View, seen: Situation) -> tuple[str, ...]:
    """Claims that pods mount and that are being deleted, or are gone and no longer the cache's (SV-324)."""
    cache, running = seen.cache.value, seen.running
    if cache is None or running is None or seen.moving_from:
        return ()
    listed = claims_of_cache(cache)
    found = ((claim, view.get(ARTIFACT_CLAIMS, running.namespace, claim)) for claim in claims_of_workload(running))
    return tuple(
        name
        for name, one in found
        if one.error is None and (one.value.deleting if one.value is not None else name not in listed)
    )


def _is_made_now(view: View, service: AIMService, seen: Situation) -> bool:
    """Whether nothing but the gate decides about the InferenceService; the other inputs close the gate (SV-223)."""
    sound = not seen.faults and seen.config.error is None and seen.routing.fault is None
    return sound and view.failure is None and not is_dry_run(service)


# How it stands


_NO_ADAPTERS: Final = AdaptersJudged()
_INPUTS: Final = frozenset(
    {
        ComponentName.MODEL,
        ComponentName.TEMPLATE,
        ComponentName.CACHE,
        ComponentName.PROFILE,
        ComponentName.PROFILE_CACHE,
    }
)


def judge(view: View, service: AIMService, seen: Situation, wanted: WantedChildren, now: datetime) -> Health:
    """The components, and what the conditions say of them."""
    creating = wanted.workload is not None and seen.running is None and _is_made_now(view, service, seen)
    observed = observe_workload(view, service, seen.workload, now, being_created=creating)
    cache = _judge_cache(view, service, seen, repaired=bool(wanted.repairs))
    adapters = _NO_ADAPTERS
    if seen.adapters is not None:
        adapters = judge_adapters(view, service, seen.adapters, seen.workload.name)
    components = _components(service, seen, observed, cache)
    # A retry counts once its status is stored; an unstored one would be tried over and over.
    reported_anyway = cache.retries != _retries(service)
    made = now if creating else _creation_of(seen.running)
    evaluation = evaluate(
        AIMService.components,
        together(components, seen.running, _beginning(service, None if reported_anyway else made), now),
        generation=service.metadata.generation,
        stored=service.status.conditions,
        stored_status=service.status.status,
        now=now,
        errors=seen.faults,
        extra=(
            *replicas_in_effect(service.spec),
            *autoscaling_in_effect(service.spec),
            *dry_run_condition(service),
            *(() if wanted.course is None else (rolled_out(service, wanted.course.status),)),
            *adapters.conditions,
        ),
        progressing=waiting_for_user(service, running=seen.running is not None),
        failure=view.failure,
        created=service.metadata.creation_timestamp if _is_sought(components) and not reported_anyway else None,
    )
    retries = cache.retries if evaluation.may_apply and not is_dry_run(service) else _retries(service)
    return Health(observed, cache, evaluation, retries, adapters)


def _components(
    service: AIMService, seen: Situation, observed: Observation, cache: CacheVerdict
) -> tuple[Component, ...]:
    running = seen.running is not None
    status = service.status
    if seen.chosen is None:
        template = template_component(seen.template.result, status, running=running)
    else:
        template = profile_component(seen.chosen, status.resolved_profile, running=running)
    ready = template.state is State.READY
    has_model = seen.chosen is None or bool(service.spec.model.name or service.spec.model.image)
    model = model_component(seen.model, status.resolved_model, running=running, template_ready=ready)
    always = (
        *((model,) if has_model else ()),
        template,
        seen.config.component(found="RuntimeConfigResolved"),
        *observed.components,
        *_cache_components(seen, cache),
    )
    if not seen.routing.enabled:
        return always
    route = find_condition(status.conditions, ComponentName.HTTP_ROUTE.condition)
    return (*always, route_component(route, seen.routing.fault))


def _cache_components(seen: Situation, cache: CacheVerdict) -> tuple[Component, ...]:
    """The cache, of which nothing is said while there is no profile (PR-053)."""
    if seen.chosen is None:
        return (cache.component,)
    return (seen.family.worded(cache.component),) if seen.chosen.template is not None else ()


def _beginning(service: AIMService, made: datetime | None) -> Beginning:
    return Beginning(service.metadata.creation_timestamp, service.status.status, made)


def _creation_of(workload: InferenceService | None) -> datetime | None:
    return None if workload is None else workload.metadata.creation_timestamp


def _is_sought(components: Sequence[Component]) -> bool:
    """Whether model, template or cache are still to come; who keeps caches goes by the status or what mounts them."""
    return any(one.name in _INPUTS and one.effective_state is not State.READY for one in components)


def _judge_cache(view: View, service: AIMService, seen: Situation, *, repaired: bool) -> CacheVerdict:
    cache, template = seen.cache.value, seen.ready_template
    # Only a failed cache is judged by its artifacts (SV-134…SV-137).
    failed = cache is not None and cache.status.status is StatusValue.FAILED
    listed = cache.status.artifacts.values() if cache is not None and failed else ()
    artifacts = (view.get(ARTIFACTS, service.namespace, one.name).value for one in listed)
    state = CacheState(
        cache=cache,
        error=seen.cache.error,
        artifacts=tuple(one for one in artifacts if one is not None),
        mode=mode_of(service),
        mounted=seen.running is not None and bool(claims_of_workload(seen.running)) and not seen.moving_from,
        repaired=repaired,
        moving_from=seen.moving_from,
        cacheable=template is None or bool(template.status.model_sources),
        retries=_retries(service),
        lost=_deleted_in_use(view, seen),
        what=seen.family.what,
    )
    return judge_cache(state)


def _scaler_effects(view: View, seen: Situation, now: datetime) -> tuple[Effect, ...]:
    """They delete and change, so they are held back like every other write (SV-223)."""
    running, scaling = seen.running, seen.workload.scaling
    return (*scaler_removal(view, running, scaling, now), *awakening(view, running, scaling, now))


def _retries(service: AIMService) -> int:
    return (service.status.cache.retry_attempts or 0) if service.status.cache else 0


# What is written


def _given_up_adapters(seen: Situation, wanted: WantedChildren) -> tuple[Delete, ...]:
    """What was made for adapters that are not listed, once the InferenceService is sure to do without its disk.

    While its gate is closed it stays as it is, and no pod could mount a claim that is being deleted (LA-033).
    """
    if seen.adapters is None or (seen.running is not None and wanted.workload is None):
        return ()
    return seen.adapters.deletes


def report(
    view: View, service: AIMService, seen: Situation, wanted: WantedChildren, judged: Health, *, now: datetime
) -> Plan:
    """The status, and what is written, as far as the evaluation lets it through."""
    evaluation, observed = judged.evaluation, judged.observed
    status = status_json(
        evaluation,
        {
            **references_json(
                service,
                seen.config,
                seen.model.model,
                seen.template.result.template,
                None if seen.chosen is None else seen.chosen.profile,
            ),
            "cache": cache_json(service, seen.cache.value, judged.retries, of_profile=seen.chosen is not None),
            "runtime": runtime_json(runtime_status(service, seen.workload.name, observed.autoscaler)),
            "rollout": None if wanted.course is None else to_json(wanted.course.status),
            "adapters": [to_json(one) for one in judged.adapters.statuses] or None,
        },
        value=service_status(evaluation.status, workload_exists=seen.running is not None),
    )
    moments = (seen.template.result.again, observed.again, None if wanted.course is None else wanted.course.again)
    again = min((moment for moment in moments if moment is not None), default=None)
    return assemble(
        evaluation,
        status=status,
        patches=(*seen.template.patches, *wanted.repairs, *wanted.remembered),
        deletes=(
            *judged.cache.deletes,
            *seen.template.deletes,
            *(() if seen.chosen is None else seen.chosen.deletes),
            *wanted.former,
            *_given_up_adapters(seen, wanted),
            *former_plan(view, service),
        ),
        children=(
            *wanted.children,
            *seen.template.children,
            *(() if seen.chosen is None else seen.chosen.children),
        ),
        events=() if seen.chosen is None else seen.chosen.events,
        effects=(
            *observed.effects,
            *wanted.checks,
            *(judged.adapters.effects if evaluation.may_apply else ()),
            *(_scaler_effects(view, seen, now) if evaluation.may_apply else ()),
        ),
        requeue_after=None if again is None else (again - now).total_seconds(),
    )
