"""Reading the profiles of a model's image by a Job (PR-090 to PR-096)."""

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from aim_discovery import SERVICE_NAME
from aim_discovery.profiles.catalogue import (
    SCRIPT,
    Catalogue,
    CatalogueError,
    Printed,
    catalogue_of,
    config_map_data,
    is_current,
    parse_log,
    spec_hash,
)
from aim_discovery.scopes import Model, ModelScope
from aim_discovery.templates.attempts import RESULT_UNREADABLE, Attempts
from aim_discovery.templates.discovery import PODS_BY_JOB, STUCK_BEFORE_OTHERS, STUCK_REASONS, UNREADABLE_RETRY
from aim_discovery.templates.job import CONTAINER, MANAGED_BY
from aim_discovery.templates.job_log import read_succeeded_pod
from aim_discovery.templates.slots import ACTIVE_JOBS, OCCUPIED, place
from aim_domain import (
    DISCOVERY_RESOURCES,
    PodFacts,
    ResolvedConfig,
    awaits_explanation,
    child_labels,
    has_succeeded,
    inspect_job,
    inspect_pods,
    is_job_finished,
    labels,
    newest_pod,
    pod_annotations,
    refused_component,
    refused_pods,
    wanted_logs,
    with_settings,
)
from aim_domain.component_names import ComponentName
from aim_domain.naming import catalogue_name, label_value, sanitise_segment
from aim_domain.parts import DISCOVERY_JOBS, PROFILE_CATALOGUES
from controller_runtime import (
    ApiModel,
    ApiVerb,
    Category,
    Child,
    ClassifiedError,
    Clients,
    Delete,
    Desired,
    Effect,
    EffectType,
    JsonObject,
    KubeClient,
    Observability,
    StrMap,
    View,
    WriteMode,
    access,
    condition,
    find_condition,
    kind_of,
    scoped,
)
from controller_runtime.core import ConfigMap, Job
from controller_runtime.kinds import CONFIG_MAP, JOB, POD

CONDITION: Final = "ProfilesDiscovered"
"""Type of the condition; it takes no part in the status of a model, whose templates work without (PR-097)."""
PENDING: Final = "DiscoveryPending"
STARTED: Final = "DiscoveryStarted"
IN_PROGRESS: Final = "DiscoveryInProgress"
SUCCEEDED: Final = "DiscoverySucceeded"
FAILED: Final = "DiscoveryFailed"
UNPARSED: Final = "LogParseFailed"
UNREADABLE: Final = "CacheParseFailed"
UNCOUNTED: Final = "DiscoveryCountFailed"
CAPPED: Final = "DiscoveryCapReached"
AWAITING: Final = "AwaitingDiscovery"
STUCK: Final = "its pod cannot start"
"""Why a Job is deleted that has not ended."""

_PREFIX: Final = "aim-disc-m"
_PREFIX_OF_CLUSTER: Final = "aim-disc-cm"
_NAME_PART: Final = 40
_JOB_DIGITS: Final = 8
_USER: Final = 65532
_SECONDS_TO_LIVE: Final = 300
_DEADLINE: Final = 900
"""Seconds after which a Job fails whose pod has not begun: the reading itself takes a moment."""


# The result of a Job


class ProfileLogParams(ApiModel):
    """Which finished Job's log is read."""

    namespace: str
    job: str


class ProfileLog(ApiModel):
    """What a Job printed.

    Attributes:
        files: content by path.
        fault: why nothing of it can be used.
    """

    files: StrMap = {}  # noqa: RUF012 - a field of a model
    aim_id: str = ""
    base_image: str = ""
    fault: str = ""


class ProfileLogReader:
    """Reads the profiles that a finished Job printed."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def __call__(self, params: ProfileLogParams) -> ProfileLog:
        """The files, or why there are none.

        Raises:
            EffectError: the log cannot be read; reason ``ResultUnreadable``.
        """
        log = await read_succeeded_pod(self._kube, params.namespace, params.job)
        try:
            printed = parse_log(log)
        except CatalogueError as fault:
            return ProfileLog(fault=str(fault))
        return ProfileLog(files=dict(printed.files), aim_id=printed.aim_id, base_image=printed.base_image)


def _reader(clients: Clients) -> ProfileLogReader:
    return ProfileLogReader(clients.kube)


PROFILE_LOG: Final = EffectType(
    "profile-log",
    ProfileLogParams,
    ProfileLog,
    _reader,
    16,
    (access(POD, ApiVerb.LIST), access(POD, ApiVerb.GET, subresource="log")),
)
"""What a finished Job that reads the profiles of an image printed."""


# The decision


@dataclass(frozen=True, slots=True)
class ReadingInputs:
    """What a reading depends on, and where it runs."""

    model: Model
    scope: ModelScope
    namespace: str
    config: ResolvedConfig
    gpu_taint: str
    limit: int

    @property
    def pull_secrets(self) -> tuple[str, ...]:
        """Names: the model's, then the namespace's."""
        own = (secret.name for secret in self.model.spec.image_pull_secrets)
        return tuple(dict.fromkeys((*own, *self.config.pull_secrets)))

    @property
    def service_account(self) -> str:
        """Of the pod; empty for the namespace's own."""
        return self.model.spec.service_account_name or ""

    @property
    def hash(self) -> str:
        """Identity of the reading."""
        return spec_hash(self.model.spec.image, self.pull_secrets, self.service_account)

    @property
    def job_name(self) -> str:
        """Name of the Job for exactly these inputs."""
        prefix = _PREFIX if self.model.namespace else _PREFIX_OF_CLUSTER
        digits = hashlib.sha256(f"{self.model.uid}\0{self.hash}".encode()).hexdigest()[:_JOB_DIGITS]
        name = sanitise_segment(self.model.name)[:_NAME_PART].rstrip("-")
        return f"{prefix}-{name}-{digits}"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a pass found out about the profiles of an image.

    Attributes:
        catalogue: ``None`` until the image was read.
        requeue_after: seconds after which the clock alone changes the answer.
    """

    condition: Desired
    attempts: Attempts
    catalogue: Catalogue | None = None
    children: tuple[Child, ...] = ()
    deletes: tuple[Delete, ...] = ()
    effects: tuple[Effect, ...] = ()
    requeue_after: float | None = None


def read_profiles(inputs: ReadingInputs, view: View, now: datetime) -> Reading:
    """Judge the reading of one image."""
    attempts = Attempts.of(inputs.model.status.discovery)
    if not attempts.is_about(inputs.hash):
        attempts = Attempts(last=attempts.last)
    kept = view.get(PROFILE_CATALOGUES, inputs.namespace, catalogue_name(inputs.model.name))
    if kept.error is not None:
        return Reading(_saying(PENDING, kept.error.message), attempts)
    if kept.value is not None and is_current(kept.value, inputs.hash):
        return _of_catalogue(kept.value, attempts.succeeded(inputs.hash))
    found = view.get(DISCOVERY_JOBS, inputs.namespace, inputs.job_name)
    if found.error is not None:
        return Reading(_saying(PENDING, found.error.message), attempts)
    job = found.value
    if job is None:
        return _absent(inputs, attempts, view, now)
    if job.deleting:
        return Reading(_saying(AWAITING, "the former discovery Job is being deleted"), attempts)
    created = job.metadata.creation_timestamp or now
    if attempts.last is None or created > attempts.last:
        attempts = attempts.begun(created)
    if attempts.failure:
        waiting = _between(inputs, attempts, now)
        if waiting.requeue_after is not None:
            return waiting if is_job_finished(job) else replace(waiting, deletes=(_delete(job, STUCK),))
        # It is in the way of the next one.
        return replace(waiting, deletes=(_delete(job, "the next attempt is due"),))
    return _of_job(inputs, job, attempts, view, now)


def _of_catalogue(config_map: ConfigMap, attempts: Attempts) -> Reading:
    try:
        catalogue = catalogue_of(config_map)
    except CatalogueError as error:
        message = f"ConfigMap {config_map.key}: {error}; delete it to have the image read again"
        return Reading(condition(CONDITION, False, UNREADABLE, message, Observability.WARNING), attempts)
    skipped = f"; left out: {'; '.join(catalogue.problems[:3])}" if catalogue.problems else ""
    message = f"the image has {len(catalogue.entries)} profile(s){skipped}"
    return Reading(condition(CONDITION, True, SUCCEEDED, message), attempts, catalogue)


def _absent(inputs: ReadingInputs, attempts: Attempts, view: View, now: datetime) -> Reading:
    if attempts.failure:
        waiting = _between(inputs, attempts, now)
        if waiting.requeue_after is not None:
            return waiting
    active = view.select(ACTIVE_JOBS, OCCUPIED)
    if active.error is not None:
        return Reading(_saying(UNCOUNTED, active.error.message), attempts)
    if len(active.items) >= inputs.limit:
        message = f"{len(active.items)} discovery Jobs run, which is the limit; this one follows"
        return Reading(_saying(CAPPED, message), attempts)
    message = f"Job {inputs.namespace}/{inputs.job_name} reads the profiles of the image"
    return Reading(_saying(STARTED, message), attempts, children=(build_job(inputs),))


def _of_job(inputs: ReadingInputs, job: Job, attempts: Attempts, view: View, now: datetime) -> Reading:
    pods = view.select(PODS_BY_JOB, scoped(job.namespace, job.name)).items
    facts = PodFacts(view, SERVICE_NAME, inputs.model.uid, now)
    if has_succeeded(job, pods):
        return _of_success(inputs, job, attempts, view, now)
    seen = inspect_pods(ComponentName.DISCOVERY_PODS, pods, log_of=facts.log_of, events_of=facts.events_of, of_job=True)
    if is_job_finished(job):
        unexplained = awaits_explanation(job, newest_pod(pods), now)
        if unexplained is not None:
            waiting = _saying(IN_PROGRESS, f"Job {job.key} has failed; waiting for its pod to say why")
            return Reading(waiting, attempts, requeue_after=unexplained.total_seconds())
        effects = facts.unread_logs(wanted_logs(pods, of_job=True))
        if effects:
            return Reading(_saying(IN_PROGRESS, f"Job {job.key} has failed; reading why"), attempts, effects=effects)
        ended = inspect_job(ComponentName.DISCOVERY_JOB, job, what=f"Job {job.key}")
        errors = (*(seen.errors if pods else ()), *ended.errors)
        return _fail(inputs, attempts, errors[0], now)
    if not pods:
        return _without_pod(job, attempts, facts)
    complaint = f": {seen.effective_message}" if seen.errors else ""
    running = _saying(IN_PROGRESS, f"Job {job.key} is running{complaint}")
    found = Reading(running, attempts, effects=facts.due_events(newest_pod(pods)))
    if not seen.errors or seen.effective_reason not in STUCK_REASONS:
        return found
    left = STUCK_BEFORE_OTHERS - (now - (job.metadata.creation_timestamp or now))
    if left > timedelta():
        return replace(found, requeue_after=left.total_seconds())
    # Its place is one of the few of all discovery Jobs.
    return replace(_fail(inputs, attempts, seen.errors[0], now), deletes=(_delete(job, STUCK),))


def _without_pod(job: Job, attempts: Attempts, facts: PodFacts) -> Reading:
    """A Job that has no pod: its Events say what refuses one (DI-391)."""
    refused = refused_pods(facts.events_about(job), job)
    message, left = f"Job {job.key} is running", facts.patience(job.metadata.creation_timestamp)
    if refused is not None:
        said = refused_component(ComponentName.DISCOVERY_JOB, f"Job {job.key}", refused, block="jobs")
        message = said.effective_message
    return Reading(_saying(IN_PROGRESS, message), attempts, effects=facts.due_events_about(job), requeue_after=left)


def _of_success(inputs: ReadingInputs, job: Job, attempts: Attempts, view: View, now: datetime) -> Reading:
    fact = PROFILE_LOG.look_up(view, SERVICE_NAME, job.uid).value
    if fact is None or fact.error is not None:
        due = None if fact is None else fact.observed_at + UNREADABLE_RETRY
        effect = PROFILE_LOG.ask(job.uid, ProfileLogParams(namespace=job.namespace, job=job.name), due)
        why = f"Job {job.key} has ended; reading its result" if fact is None or fact.error is None else str(fact.error)
        return Reading(_saying(IN_PROGRESS, why), attempts, effects=(effect,))
    result = PROFILE_LOG.result_of(fact) or ProfileLog(fault="nothing was printed")
    if result.fault:
        error = ClassifiedError(Category.INVALID_SPEC, UNPARSED, f"output of Job {job.key}: {result.fault}")
        return _fail(inputs, attempts, error, now)
    printed = Printed(result.files, result.aim_id, result.base_image)
    said = _saying(IN_PROGRESS, f"Job {job.key} has printed {len(result.files)} file(s)")
    return Reading(said, attempts.succeeded(inputs.hash), children=(_config_map(inputs, printed),))


def _fail(inputs: ReadingInputs, attempts: Attempts, error: ClassifiedError, now: datetime) -> Reading:
    return _between(inputs, attempts.failed_with(error, inputs.hash, now), now)


def _between(inputs: ReadingInputs, attempts: Attempts, now: datetime) -> Reading:
    """Between a failed attempt and the next Job; ``requeue_after`` is ``None`` when that is due."""
    error = attempts.error or ClassifiedError(Category.INFRASTRUCTURE, RESULT_UNREADABLE, "the last attempt failed")
    stored = find_condition(inputs.model.status.conditions, CONDITION)
    noted = stored if stored is not None and stored.reason == FAILED else None
    before = Attempts.of(inputs.model.status.discovery)
    noted = noted if before.failed == attempts.failed else None
    recorded = now if noted is None else noted.last_transition_time
    wait = max(timedelta(), (attempts.due(recorded) or now) - now)
    message = f"{error} (failed attempts: {attempts.failed}; next attempt in {round(wait.total_seconds())} s)"
    text = message if noted is None else noted.message
    failed = condition(CONDITION, False, FAILED, text, Observability.WARNING)
    return Reading(failed, attempts, requeue_after=wait.total_seconds() or None)


def _saying(reason: str, message: str) -> Desired:
    return condition(CONDITION, False, reason, message)


def _delete(job: Job, why: str) -> Delete:
    return Delete(DISCOVERY_JOBS, job.namespace, job.name, job.uid, why)


# What is made


def _config_map(inputs: ReadingInputs, printed: Printed) -> Child:
    model = inputs.model
    own = {labels.COMPONENT: labels.COMPONENT_PROFILE_CATALOGUE}
    metadata: JsonObject = {
        "name": catalogue_name(model.name),
        "namespace": inputs.namespace,
        "labels": _labelled(inputs, own),
        "annotations": {labels.ANNOTATION_DISCOVERY_HASH: inputs.hash},
    }
    data = config_map_data(printed, model.spec.image, inputs.hash)
    return Child(PROFILE_CATALOGUES, kind_of({"metadata": metadata, "data": data}, CONFIG_MAP))


def _labelled(inputs: ReadingInputs, own: dict[str, str]) -> dict[str, str]:
    propagation = inputs.config.spec.label_propagation
    return child_labels(own, parent=inputs.model, controller=inputs.scope.controller, propagation=propagation)


def build_job(inputs: ReadingInputs) -> Child:
    """The complete Job; it is created once and never changed (PR-090)."""
    pod_own = {
        labels.APP_COMPONENT: labels.APP_COMPONENT_DISCOVERY,
        labels.DISCOVERY_TARGET: label_value(inputs.model.name),
    }
    own = {
        **pod_own,
        labels.APP_NAME: labels.APP_NAME_DISCOVERY,
        labels.APP_MANAGED_BY: MANAGED_BY,
    }
    pod_labels = {key: value for key, value in _labelled(inputs, pod_own).items() if key != labels.APP_MANAGED_BY}
    given = pod_annotations(inputs.config.spec.jobs)
    annotated = {"annotations": given} if given else {}
    body: JsonObject = {
        "metadata": {
            "name": inputs.job_name,
            "namespace": inputs.namespace,
            "labels": _labelled(inputs, own),
            "annotations": {labels.ANNOTATION_DISCOVERY_HASH: inputs.hash},
        },
        "spec": {
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": _SECONDS_TO_LIVE,
            "activeDeadlineSeconds": _DEADLINE,
            "template": {"metadata": {"labels": pod_labels, **annotated}, "spec": _pod_spec(inputs)},
        },
    }
    return Child(DISCOVERY_JOBS, kind_of(body, JOB), mode=WriteMode.CREATE, quotas=(place(inputs.limit),))


def _pod_spec(inputs: ReadingInputs) -> JsonObject:
    secrets = [{"name": name} for name in inputs.pull_secrets]
    container: JsonObject = {
        "name": CONTAINER,
        "image": inputs.model.spec.image,
        "command": ["sh", "-c", SCRIPT],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    pod: JsonObject = {
        "restartPolicy": "Never",
        **({"imagePullSecrets": secrets} if secrets else {}),
        **({"serviceAccountName": inputs.service_account} if inputs.service_account else {}),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
    }
    return with_settings(pod, inputs.config.spec.jobs, defaults=DISCOVERY_RESOURCES, gpu_taint=inputs.gpu_taint)
