"""What to do about a cause, with the names of the objects in it: commands that work as they stand."""

import re
import shlex
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from aim_cli.cluster.refs import Ref
from aim_cli.why.blockers import UNPULLED, Blocker, Link, in_command
from aim_domain import labels
from aim_domain.kind_names import AIM_CLUSTER_SERVICE_TEMPLATE, AIM_SERVICE_TEMPLATE, GATEWAY, POD

_PREVIOUS: Final = "read why it ends: kubectl logs {log} --previous"
_MEMORY: Final = "raise resources of the service: kubectl edit {service}"

_SEE_SERVICES: Final = "see whether its service runs: kubectl get pods -A -l app.kubernetes.io/part-of=aim-engine"
REMEDIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AuthError": (
            "correct the Secret that env of the service or of its runtime config names, or env itself; "
            "it is tried again by itself: kubectl edit {service}"
        ),
        "SourceNotFound": "upload it, or correct the source: kubectl edit {what}",
        "StorageFull": "raise spec.size or the headroom, delete it and create it again: kubectl delete {what}",
        "NoMatchingFiles": "correct spec.downloadFilter: kubectl edit {what}",
        "PodFailed": "read why it ends, and correct that: kubectl describe {what}",
        "DownloadFailed": "once the source answers, delete it and create it again: kubectl delete {what}",
        "JobBackoffLimitExceeded": "read what its pods said, delete it and create it again: kubectl delete {what}",
        "NamespaceQuotaExceeded": (
            "delete artifacts (kubectl get aimartifacts -n {namespace}), or raise the limit: "
            "kubectl edit namespace {namespace}"
        ),
        "ClusterQuotaExceeded": (
            "delete artifacts (kubectl get aimartifacts -A), or raise the limit: "
            "kubectl edit aimclusterruntimeconfig default"
        ),
        "ExceedsQuotaLimit": (
            "raise the limit: kubectl edit namespace {namespace}, or kubectl edit aimclusterruntimeconfig default"
        ),
        "ModelNotFound": (
            "create the model, or create the service again with another one, as spec.model cannot be changed: "
            "kubectl delete {service}"
        ),
        "InvalidSpec": "correct the field that it names: kubectl edit {what}",
        "ProfileNotFound": "create the profile, or correct spec.profile: kubectl edit {service}",
        "ProfileNotReady": "see what the profile, or the model that it is of, waits for: kubectl describe {service}",
        "TemplateNotFound": "create the template, or correct spec.template.name: kubectl edit {service}",
        "ReferenceNotFound": "create what it names, or correct the name: kubectl edit {what}",
        "ImageNotFound": "correct the image: kubectl edit {what}",
        "InvalidImageReference": "correct the image: kubectl edit {what}",
        "MetadataExtractionFailed": "it is tried again by itself; where the registry is wrong: kubectl edit {what}",
        "DiscoveryFailed": "correct what it names, it is tried again by itself: kubectl describe {what}",
        "ImagePullBackOff": "correct image or pull secret: kubectl describe {what}",
        "ErrImagePull": "correct image or pull secret: kubectl describe {what}",
        "ImagePullAuthFailure": "name a pull secret that the registry takes (imagePullSecrets): kubectl edit {service}",
        "CreateContainerConfigError": "create what it names, or correct env: kubectl edit {service}",
        UNPULLED: "create the named Secret, or correct imagePullSecrets: kubectl get secrets -n {namespace}",
        "CrashLoopBackOff": _PREVIOUS,
        "OOMKilled": _MEMORY,
        "PodOOMKilled": _MEMORY,
        "PodEvicted": "free what the node is short of: kubectl describe {what}",
        "PodsStarting": "read what it waits for: kubectl logs {log}",
        "Unhealthy": "read what it waits for: kubectl logs {log}",
        "Unschedulable": "free what it asks for, or add nodes: kubectl describe {what}",
        "FailedScheduling": "free what the pod asks for, or add nodes: kubectl describe {what}",
        "GPUNotAvailable": "add a node with that GPU, or choose another template: kubectl get nodes --show-labels",
        "VRAMNotAvailable": "ask for less, or add a node with a larger GPU: kubectl get nodes --show-labels",
        "JobRunning": "see how far it is: aim cache -n {namespace}",
        "GPUNotSchedulable": "set predictors.tolerations of the runtime config, or remove a taint: kubectl get nodes",
        "SecretNotFound": "create it, or correct imagePullSecrets: kubectl edit {service}",
        "ProvisioningFailed": (
            "name a storage class that exists and provides the access mode: kubectl get storageclass"
        ),
        "FailedCreate": (
            "correct what it names (kubectl get resourcequota,limitrange -n {namespace}), or set jobs or predictors of "
            "the runtime config"
        ),
        "Suspended": "see the queue that holds it: kubectl describe {what}",
        "GatewayNotConfigured": "set routing.gatewayRef in the service or its runtime config: kubectl edit {service}",
        "HTTPRoutePending": "see whether a controller serves the gateway: kubectl describe {what}",
        "GatewayNotProgrammed": "see what its controller reports: kubectl describe gateways -A",
        "NotAllowedByListeners": "let a listener of the Gateway take routes of the namespace: kubectl edit {gateway}",
        "PathTemplateInvalid": "correct the path template: kubectl edit {what}",
        "PathConflict": "choose another path or other hostnames: kubectl edit {what}",
        "RoutingDisabled": "restore spec.routing of the named config, or set it here: kubectl edit {what}",
        "PathReserved": "choose another path or other hostnames: kubectl edit {what}",
        "Pending": "see what the provisioner says: kubectl describe {what}",
        "Failed": "see what its pods said: kubectl describe {what}",
        "BackoffLimitExceeded": "see what its pods said: kubectl describe {what}",
        "DeadlineExceeded": "see why its pod takes so long: kubectl describe {what}",
        "NodeNotReady": "see what its node reports, Kubernetes replaces the pod after 5 minutes: kubectl get nodes",
        "FailedMount": "see whether volume and node fit: kubectl describe {what}",
        "NoController": "see whether a controller serves the class: kubectl get gatewayclasses",
        "Paused": f"resume reconciliation: kubectl annotate {{what}} {labels.ANNOTATION_PAUSED}-",
        "DryRun": f"have the plan carried out: kubectl annotate {{what}} {labels.ANNOTATION_DRY_RUN}-",
        "RolloutPreparing": "wait until the new version runs: kubectl get {what} -w",
        "RolloutProgressing": "wait for the end of the step: kubectl get {what} -w",
        "RolloutPaused": (
            f"go on with the next step: kubectl annotate --overwrite {{what}} {labels.ANNOTATION_ROLLOUT}=continue"
        ),
        "RolloutPromoting": "wait until its pods are replaced: kubectl get {what} -w",
        "RolloutDraining": "wait half a minute: kubectl get {what} -w",
        "RolloutAborted": (
            f"correct the spec, or try again: kubectl annotate --overwrite {{what}} {labels.ANNOTATION_ROLLOUT}=retry"
        ),
        "AdapterFailed": "correct the adapter in spec.adapters, or raise maxRank: kubectl get {what} -o yaml",
        "AdapterDiskNotReady": "see why its disk has no volume: kubectl get aimartifacts -A",
        "AdapterDiskNotFound": "create the AIMArtifact of type adapterDisk that it names: kubectl get {what} -o yaml",
        "AdapterDiskFull": "delete adapters of that disk, or name a larger one: kubectl get aimartifacts -A",
        "AdaptersDownloading": "wait until they are downloaded: kubectl get aimartifacts -A",
        "AdaptersLoading": "wait until the engines have loaded them: kubectl get {what} -w",
        "AdaptersPending": "wait for their files and for a pod: kubectl get {what} -w",
        "WaitingForEviction": "wait for what is being deleted: kubectl get aimartifacts -A",
        "NoStatus": _SEE_SERVICES,
    }
)
"""By reason."""

_NOT_CHANGED: Final = (
    "push the image and have it inspected again (kubectl delete {what}), or create the service again with another one, "
    "as spec.model cannot be changed: kubectl delete {service}"
)
_OTHER_GPU: Final = (
    "add a node with such a GPU, or create the service again for another one, as spec.model cannot be changed: "
    "kubectl delete {service}"
)
_NO_GPU: Final = frozenset({"GPUNotAvailable", "VRAMNotAvailable"})
_OF_DERIVED: Final = MappingProxyType(
    {
        "ImageNotFound": _NOT_CHANGED,
        "InvalidImageReference": _NOT_CHANGED,
        "MetadataExtractionFailed": (
            "it is tried again by itself; where the image names the wrong registry create the service again, as "
            "spec.model cannot be changed: kubectl delete {service}"
        ),
    }
)
"""By reason, for what is made from a service: an edit of it is undone, or refused by the service."""
_MADE_AGAIN: Final = MappingProxyType(
    {
        "SourceNotFound": "upload it, or correct the model, then have it made again: kubectl delete {what}",
        "StorageFull": "raise spec.size or the headroom, then have it made again: kubectl delete {what}",
        "PodFailed": "read why it ends; once that is gone, have it made again: kubectl delete {what}",
        "DownloadFailed": "once the source answers, have it made again: kubectl delete {what}",
        "JobBackoffLimitExceeded": "read why it ends; once that is gone, have it made again: kubectl delete {what}",
        "DiscoveryFailed": "once the cause is gone, have it made again: kubectl delete {what}",
    }
)
"""By reason, for what the platform makes again when it is deleted."""
_OF_PODS: Final = MappingProxyType(
    {"ImageNotFound": "push the image, it is tried again by itself; at once after: kubectl delete {what}"}
)
"""By reason, for pods, whose images others name."""
_OF_DISCOVERY_PODS: Final = MappingProxyType(
    {"ImageNotFound": "push the image; it is tried again with growing pauses, at once after: kubectl delete {made}"}
)
"""A Job of discovery gives up with its pod, and the next one follows after a pause; a new template has none."""
_TEMPLATES: Final = (f"{AIM_SERVICE_TEMPLATE.singular} ", f"{AIM_CLUSTER_SERVICE_TEMPLATE.singular} ")
_OF_AUTOSCALER: Final = (
    "see what the autoscaler and the metrics API report: kubectl describe hpa -n {namespace}, "
    "kubectl get apiservices | grep metrics"
)
_AUTOSCALER: Final = "HPAReady"
_UNSCHEDULABLE: Final = frozenset({"Unschedulable", "FailedScheduling"})
_NO_TEMPLATE: Final = frozenset({"TemplateNotFound"})
_NAME: Final = r"[a-z0-9][a-z0-9.-]*"
"""What may go from a message into a command: a tenant, an image or a log may have chosen the rest of it."""


class Words(NamedTuple):
    """What to do by the words of a message.

    Attributes:
        reasons: of which they are read; words of a log that are quoted under another reason mean nothing here.
        words: their named groups stand in the text.
        text: the remedy.
    """

    reasons: frozenset[str]
    words: re.Pattern[str]
    text: str


_CREATE_LOGIN: Final = (
    "kubectl create secret docker-registry {name} -n {namespace} "
    "--docker-server=REGISTRY --docker-username=USER --docker-password=PASSWORD"
)
_BY_WORDS: Final = (
    Words(
        _NO_TEMPLATE,
        re.compile(
            rf"AIMModel \S+/(?P<name>{_NAME}) has no template and makes none: The model has no templates of its own: "
            r"spec\.discovery\.createServiceTemplates is false"
        ),
        "set spec.discovery.createServiceTemplates to true: kubectl edit aimmodel {name} -n {namespace}",
    ),
    Words(
        _NO_TEMPLATE,
        re.compile(r"has no template and makes none: "),
        "create a template for it, or create the service again with another image, as spec.model is immutable: "
        "kubectl delete {service}",
    ),
    Words(
        _NO_TEMPLATE,
        re.compile(r"set spec\.template\.allowUnoptimized"),
        """kubectl patch {service} --type merge -p '{{"spec":{{"template":{{"allowUnoptimized":true}}}}}}'""",
    ),
    Words(
        _NO_TEMPLATE,
        re.compile(r"matches spec\.overrides"),
        "correct spec.overrides: kubectl edit {service}",
    ),
    Words(
        frozenset({"Progressing"}), re.compile(r"^Waiting for HTTPRoute: routing has not reported yet$"), _SEE_SERVICES
    ),
    Words(
        frozenset({"InvalidSpec"}),
        re.compile(r"^spec\.\S+ of its runtime config: "),
        "correct it there, or set it here: kubectl edit {service}",
    ),
    Words(
        frozenset({"ImagePullBackOff", "ErrImagePull"}),
        re.compile(r"(?i)\b429\b|rate limit|too many requests"),
        "wait, or name a pull secret whose account may pull more (imagePullSecrets): kubectl edit {service}",
    ),
    Words(
        frozenset({"ImagePullBackOff", "ErrImagePull"}),
        re.compile(r"(?i)connection refused|connection reset|no such host|i/o timeout|no route to host|unreachable"),
        "let the nodes reach the registry, it is tried again by itself; at once after: kubectl delete {what}",
    ),
    Words(
        frozenset({"SecretNotFound"}),
        re.compile(rf"^pull secret (?P<namespace_of>{_NAME})/(?P<name>{_NAME}) does not exist", re.ASCII),
        f"create it, or correct imagePullSecrets: {_CREATE_LOGIN.replace('{namespace}', '{namespace_of}')}",
    ),
    Words(
        frozenset({UNPULLED}),
        re.compile(rf"image pull secrets \((?P<name>{_NAME})\)", re.ASCII),
        f"create it, or correct imagePullSecrets: {_CREATE_LOGIN}",
    ),
    Words(
        frozenset({"GPUNotSchedulable"}),
        re.compile(r"node\.kubernetes\.io/unschedulable"),
        "uncordon a node with that GPU (kubectl get nodes): kubectl uncordon NODE",
    ),
    Words(
        _UNSCHEDULABLE,
        re.compile(r"no node is large enough"),
        "ask for less, or add a larger node: kubectl edit {service}",
    ),
    Words(
        _UNSCHEDULABLE,
        re.compile(r"Insufficient amd\.com/gpu"),
        "free a GPU, add nodes, or set spec.deploymentStrategy.type to Recreate: kubectl describe {what}",
    ),
    # A pod that finds no room on the other nodes needs room; the taint of control planes is on one of most clusters.
    Words(
        _UNSCHEDULABLE,
        re.compile(r"^(?!.*Insufficient).*untolerated taint \{(?!node-role\.kubernetes\.io/)", re.DOTALL),
        "set jobs.tolerations or predictors.tolerations of the runtime config: kubectl describe {what}",
    ),
    Words(
        _UNSCHEDULABLE,
        re.compile(r"^(?!.*(?:Insufficient|untolerated taint)).*didn't match Pod's node affinity/selector", re.DOTALL),
        "label a node as the pod asks (kubectl describe {what}), or correct nodeSelector of jobs or predictors in the "
        "runtime config: kubectl label node NODE KEY=VALUE",
    ),
    Words(frozenset({"CrashLoopBackOff"}), re.compile(r"last exit code \d+ \(OOMKilled\)"), _MEMORY),
    Words(
        frozenset({"PodOOMKilled"}),
        re.compile(r"container (?:model-download|check-size|discovery) "),
        "raise jobs.resources of the runtime config, then have it made again: kubectl delete {made}",
    ),
    Words(
        frozenset({"CreateContainerConfigError"}),
        re.compile(rf"couldn't find key (?P<key>[-.\w]+) in Secret {_NAME}/(?P<name>{_NAME})$", re.ASCII),
        """kubectl patch secret {name} -n {namespace} --type merge -p '{{"stringData":{{"{key}":"VALUE"}}}}'""",
    ),
    Words(
        frozenset({"CreateContainerConfigError"}),
        re.compile(rf'secret "(?P<name>{_NAME})" not found$'),
        "create it, or correct env: kubectl create secret generic {name} -n {namespace} --from-literal=KEY=VALUE",
    ),
    Words(
        frozenset({"ProvisioningFailed"}),
        re.compile(r'storageclass\.storage\.k8s\.io "[^"]*" not found'),
        "name one that exists (kubectl get storageclass), then have it made again: kubectl delete {chosen}",
    ),
    Words(
        frozenset({"ProvisioningFailed"}),
        re.compile(r"(?i)no space left in|insufficient (?:capacity|space)|out of (?:disk )?space"),
        "free space in the pool of the storage class, it is tried again by itself: kubectl get pv",
    ),
)
"""Where a reason alone says too little; the first that fits."""
_ANSWERS: Final = frozenset(
    {"FailedCreate", "InvalidSpec", "InfrastructureError", "AdmissionDenied", "QuotaExceeded", "ProvisioningFailed"}
)
"""Reasons whose message may be an answer of the API server; under others it may be of a log."""
_REFUSED: Final = (
    (
        re.compile(rf"forbidden: exceeded quota: (?P<name>{_NAME})", re.ASCII),
        "raise the quota, or delete what counts: kubectl edit resourcequota {name} -n {namespace}",
    ),
    (
        re.compile(
            rf'forbidden: error looking up service account \S+: serviceaccount "(?P<name>{_NAME})" not found', re.ASCII
        ),
        "create it, or correct serviceAccountName: kubectl create serviceaccount {name} -n {namespace}",
    ),
    (
        re.compile(rf"forbidden: no PriorityClass with name (?P<name>{_NAME}) was found", re.ASCII),
        "create it, or name another in the runtime config: kubectl create priorityclass {name} --value=VALUE",
    ),
    (
        re.compile(r"forbidden: (?:maximum|minimum) \S+ usage per (?:Container|Pod) is "),
        "change it, or set jobs.resources or predictors.resources: kubectl edit limitrange -n {namespace}",
    ),
    (
        re.compile(rf"ValidatingAdmissionPolicy '{_NAME}' with binding '(?P<name>{_NAME})' denied request", re.ASCII),
        "do what the policy asks for, or exempt the namespace: kubectl edit validatingadmissionpolicybinding {name}",
    ),
)
"""By the words of the API server, which answers writes of all kinds with them, under reasons of those who write."""


def is_known(link: Link) -> bool:
    """Whether there is more to say than what Kubernetes does."""
    return link.blocker is None or link.blocker.reason in REMEDIES


def remedy_of(link: Link) -> str:
    """One line; what Kubernetes itself says of the object, where nothing better is known."""
    ref, blocker = link.ref, link.blocker
    if blocker is None:
        scope = f" -n {ref.namespace}" if ref.namespace else ""
        return f"create it, or correct who names it: kubectl get {ref.kind.plural}{scope}"
    what = blocker.subject or in_command(ref)
    names = {
        "what": what,
        "log": what.removeprefix(f"{POD.singular} "),
        "namespace": ref.namespace,
        "service": blocker.service or f"aimservices{f' -n {ref.namespace}' if ref.namespace else ' -A'}",
        "chosen": blocker.chosen,
        "made": blocker.made,
        "gateway": _gateway_of(blocker),
    }
    for words, text in _REFUSED:
        found = words.search(blocker.message) if blocker.reason in _ANSWERS else None
        if found is not None:
            return text.format(**names, **found.groupdict())
    for reasons, words, text in _BY_WORDS:
        found = words.search(blocker.message) if blocker.reason in reasons else None
        # What is not made again is not to be deleted.
        if found is not None and not any(f"{{{one}}}" in text and not names[one] for one in ("chosen", "made")):
            return text.format(**names, **found.groupdict())
    return _by_reason(ref, blocker).format(**names)


_COMMAND: Final = re.compile(r"(?:^|: )((?:kubectl|aim) (?:(?!, or kubectl ).)*)$", re.DOTALL)


def split_remedy(remedy: str) -> tuple[str, str]:
    """What to do in words, and the command that stands behind it; either may be empty."""
    found = _COMMAND.search(remedy)
    return (remedy, "") if found is None else (remedy[: found.start()], found[1])


def _by_reason(ref: Ref, blocker: Blocker) -> str:
    if blocker.condition == _AUTOSCALER:
        return _OF_AUTOSCALER
    if blocker.derived and blocker.reason in _MADE_AGAIN:
        return _MADE_AGAIN[blocker.reason]
    if blocker.derived and blocker.service and blocker.reason in _OF_DERIVED:
        return _OF_DERIVED[blocker.reason]
    if blocker.derived and blocker.service and ref.kind == AIM_SERVICE_TEMPLATE and blocker.reason in _NO_GPU:
        return _OTHER_GPU
    if ref.kind == POD and blocker.reason in _OF_PODS:
        of_discovery = blocker.made.startswith(_TEMPLATES)
        return (_OF_DISCOVERY_PODS if of_discovery else _OF_PODS)[blocker.reason]
    return REMEDIES.get(blocker.reason, "kubectl describe {what}")


def _gateway_of(blocker: Blocker) -> str:
    named = (one for one in blocker.towards if isinstance(one, Ref) and one.kind == GATEWAY)
    return next((shlex.join(in_command(one).split()) for one in named), "gateways -A")
