"""What somebody can do about a reason."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from aim_cli.why.chain import Link
from aim_domain import labels

REMEDIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AuthError": "correct the token or the keys in its env, or in the runtime config that it follows",
        "SourceNotFound": "correct the source: kubectl edit {what}",
        "StorageFull": "raise spec.size or the headroom, and create it again: kubectl delete {what}",
        "NoMatchingFiles": "correct spec.downloadFilter: kubectl edit {what}",
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
        "ImageNotFound": "correct the image: kubectl edit {what}",
        "ImagePullBackOff": "correct image or pull secret: kubectl describe {what}",
        "ErrImagePull": "correct image or pull secret: kubectl describe {what}",
        "CrashLoopBackOff": "read why it ends: kubectl logs {log} --previous",
        "OOMKilled": "give it more memory: kubectl describe {what}",
        "Unschedulable": "free what it asks for, or add nodes: kubectl describe {what}",
        "FailedScheduling": "free what the pod asks for, or add nodes: kubectl describe {what}",
        "GPUNotAvailable": "add a node with that GPU, or choose another template: kubectl get nodes --show-labels",
        "GPUNotSchedulable": "uncordon a node, or set predictors.tolerations of the runtime config: kubectl get nodes",
        "ProvisioningFailed": (
            "name a storage class that exists and provides the access mode: kubectl get storageclass"
        ),
        "FailedCreate": (
            "correct what it names (kubectl get resourcequota,limitrange -n {namespace}), or set jobs or predictors of "
            "the runtime config"
        ),
        "Suspended": "see the queue that holds it: kubectl describe {what}",
        "GatewayNotConfigured": "set routing.gatewayRef in the service or its runtime config",
        "HTTPRoutePending": "see whether a controller serves the gateway: kubectl describe {what}",
        "GatewayNotProgrammed": "see what its controller reports: kubectl describe gateways -A",
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
        "Paused": f"let it go on: kubectl annotate {{what}} {labels.ANNOTATION_PAUSED}-",
        "WaitingForEviction": "wait for what is being deleted: kubectl get aimartifacts -A",
        "NoStatus": "see whether its service runs: kubectl get pods -A -l app.kubernetes.io/part-of=aim-engine",
    }
)


_BY_WORDS: Final = (
    (
        re.compile(r"Insufficient amd\.com/gpu"),
        "free a GPU, add nodes, or set spec.deploymentStrategy.type to Recreate: kubectl describe {what}",
    ),
    # A pod that finds no room on the other nodes needs room; the taint of control planes is on one of most clusters.
    (
        re.compile(r"^(?!.*Insufficient).*untolerated taint \{(?!node-role\.kubernetes\.io/)", re.DOTALL),
        "set jobs.tolerations or predictors.tolerations of the runtime config: kubectl describe {what}",
    ),
)
"""What to do by the words of a message, where its reason alone says too little; the first that fits."""


def is_known(link: Link) -> bool:
    """Whether there is more to say than what Kubernetes does."""
    return link.blocker is None or link.blocker.reason in REMEDIES


def remedy_of(link: Link) -> str:
    """One line; what Kubernetes itself says of the object, where nothing better is known."""
    ref = link.ref
    scope = f" -n {ref.namespace}" if ref.namespace else ""
    what = (link.blocker.subject if link.blocker else "") or f"{ref.kind.singular} {ref.name}{scope}"
    if link.blocker is None:
        return f"create it, or correct who names it: kubectl get {ref.kind.plural}{scope}"
    known = next((text for words, text in _BY_WORDS if words.search(link.blocker.message)), None)
    known = known or REMEDIES.get(link.blocker.reason)
    if known is None:
        return f"kubectl describe {what}"
    return known.format(what=what, namespace=ref.namespace, log=f"{ref.name}{scope}")
