"""What to do about a cause, with the names of the objects in it: commands that work as they stand."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from aim_cli.cluster.refs import Ref
from aim_cli.why.blockers import UNPULLED, Blocker, Link
from aim_domain import labels
from aim_domain.kind_names import GATEWAY, POD

_PREVIOUS: Final = "read why it ends: kubectl logs {log} --previous"
_MEMORY: Final = "raise resources of the service: kubectl edit {service}"

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
        "GPUNotSchedulable": "uncordon a node, or set predictors.tolerations of the runtime config: kubectl get nodes",
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
        "WaitingForEviction": "wait for what is being deleted: kubectl get aimartifacts -A",
        "NoStatus": "see whether its service runs: kubectl get pods -A -l app.kubernetes.io/part-of=aim-engine",
    }
)
"""By reason."""

_NOT_CHANGED: Final = (
    "push the image, or create the service again with another one, as spec.model cannot be changed: "
    "kubectl delete {service}"
)
_OTHER_GPU: Final = (
    "add a node with such a GPU, or create the service again for another one, as spec.model cannot be changed: "
    "kubectl delete {service}"
)
_OF_DERIVED: Final = MappingProxyType(
    {
        "ImageNotFound": _NOT_CHANGED,
        "InvalidImageReference": _NOT_CHANGED,
        "GPUNotAvailable": _OTHER_GPU,
        "VRAMNotAvailable": _OTHER_GPU,
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
    {"ImageNotFound": "push the image to the registry, it is tried again by itself: kubectl describe {what}"}
)
"""By reason, for pods, whose images others name."""
_OF_AUTOSCALER: Final = (
    "see what the autoscaler and the metrics API report: kubectl describe hpa -n {namespace}, "
    "kubectl get apiservices | grep metrics"
)
_AUTOSCALER: Final = "HPAReady"
_BY_WORDS: Final = (
    (
        re.compile(r"exceeded quota: "),
        "raise the quota, or delete what counts: kubectl describe resourcequota -n {namespace}",
    ),
    (
        re.compile(r"AIMModel \S+/(?P<name>\S+) has no template and makes none: .*discovery\.createServiceTemplates"),
        "set spec.discovery.createServiceTemplates to true: kubectl edit aimmodel {name} -n {namespace}",
    ),
    (
        re.compile(r"has no template and makes none: "),
        (
            "create a template for it, or create the service again with another image, as spec.model is immutable: "
            "kubectl delete {service}"
        ),
    ),
    (
        re.compile(r"^spec\.\S+ of its runtime config: "),
        "correct it there, or set it here: kubectl edit {service}",
    ),
    (
        re.compile(r"set spec\.template\.allowUnoptimized"),
        """kubectl patch {service} --type merge -p '{{"spec":{{"template":{{"allowUnoptimized":true}}}}}}'""",
    ),
    (re.compile(r"matches spec\.overrides"), "correct spec.overrides: kubectl edit {service}"),
    (
        re.compile(r"(?i)\b429\b|rate limit|too many requests"),
        "wait, or name a pull secret whose account may pull more (imagePullSecrets): kubectl edit {service}",
    ),
    (
        re.compile(r"no node is large enough"),
        "ask for less, or add a larger node: kubectl edit {service}",
    ),
    (
        re.compile(r"Insufficient amd\.com/gpu"),
        "free a GPU, add nodes, or set spec.deploymentStrategy.type to Recreate: kubectl describe {what}",
    ),
    # A pod that finds no room on the other nodes needs room; the taint of control planes is on one of most clusters.
    (
        re.compile(r"^(?!.*Insufficient).*untolerated taint \{(?!node-role\.kubernetes\.io/)", re.DOTALL),
        "set jobs.tolerations or predictors.tolerations of the runtime config: kubectl describe {what}",
    ),
    (re.compile(r"keeps crashing: .*\(OOMKilled\)"), _MEMORY),
    (
        re.compile(r"container (?:model-download|check-size|discovery) .*\(OOMKilled\)"),
        "raise jobs.resources of the runtime config, then have it made again: kubectl delete {made}",
    ),
    (
        re.compile(r"couldn't find key (?P<key>\S+) in Secret [^/\s]+/(?P<name>\S+)"),
        """kubectl patch secret {name} -n {namespace} --type merge -p '{{"stringData":{{"{key}":"VALUE"}}}}'""",
    ),
    (
        re.compile(r'storageclass\.storage\.k8s\.io "[^"]*" not found'),
        "name one that exists (kubectl get storageclass), then have it made again: kubectl delete {owner}",
    ),
    (
        re.compile(r"(?i)no space left in|insufficient (capacity|space)|out of (disk )?space"),
        "free space in the pool of the storage class, it is tried again by itself: kubectl get pv",
    ),
    (
        re.compile(r'secret "(?P<name>[^"]+)" not found'),
        "create it, or correct env: kubectl create secret generic {name} -n {namespace} --from-literal=KEY=VALUE",
    ),
)
"""What to do by the words of a message, where its reason alone says too little; the first that fits."""


def is_known(link: Link) -> bool:
    """Whether there is more to say than what Kubernetes does."""
    return link.blocker is None or link.blocker.reason in REMEDIES


def remedy_of(link: Link) -> str:
    """One line; what Kubernetes itself says of the object, where nothing better is known."""
    ref, blocker = link.ref, link.blocker
    scope = f" -n {ref.namespace}" if ref.namespace else ""
    if blocker is None:
        return f"create it, or correct who names it: kubectl get {ref.kind.plural}{scope}"
    what = blocker.subject or f"{ref.kind.singular} {ref.name}{scope}"
    names = {
        "what": what,
        "log": what.removeprefix(f"{POD.singular} "),
        "namespace": ref.namespace,
        "service": blocker.service or f"aimservices{scope or ' -A'}",
        "owner": blocker.owner,
        "made": blocker.made,
        "gateway": _gateway_of(blocker),
    }
    for words, text in _BY_WORDS:
        # Where nothing above is made again, nothing is to be deleted.
        is_missing = ("{owner}" in text and not blocker.owner) or ("{made}" in text and not blocker.made)
        if (found := words.search(blocker.message)) is not None and not is_missing:
            return text.format(**names, **found.groupdict())
    return _by_reason(ref, blocker).format(**names)


def _by_reason(ref: Ref, blocker: Blocker) -> str:
    if blocker.condition == _AUTOSCALER:
        return _OF_AUTOSCALER
    if blocker.derived and blocker.reason in _MADE_AGAIN:
        return _MADE_AGAIN[blocker.reason]
    if blocker.derived and blocker.service and blocker.reason in _OF_DERIVED:
        return _OF_DERIVED[blocker.reason]
    if ref.kind == POD and blocker.reason in _OF_PODS:
        return _OF_PODS[blocker.reason]
    return REMEDIES.get(blocker.reason, "kubectl describe {what}")


def _gateway_of(blocker: Blocker) -> str:
    named = (one for one in blocker.towards if isinstance(one, Ref) and one.kind == GATEWAY)
    return next((f"{one.kind.singular} {one.name} -n {one.namespace}" for one in named), "gateways -A")
