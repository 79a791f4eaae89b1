"""The closed table of what keeps a service from its work, and what to do (FW-583). Imports nothing heavy."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from controller_runtime.names import DEFINE, DOMAIN


class Cause(StrEnum):
    """The closed table of reasons, as they stand in `/readyz`, logs and Events."""

    SETTINGS = "InvalidSettings"
    BROKER_UNREACHABLE = "BrokerUnreachable"
    BROKER_CREDENTIALS = "BrokerCredentialsRefused"
    BROKER_CERTIFICATE = "BrokerCertificateRefused"
    BROKER_NO_JETSTREAM = "BrokerWithoutJetStream"
    BROKER_DENIES = "BrokerPermissionMissing"
    BROKER_STREAM = "BrokerStreamChanged"
    API_UNREACHABLE = "KubernetesUnreachable"
    API_CREDENTIALS = "KubernetesCredentialsRefused"
    PERMISSION = "KubernetesPermissionMissing"
    DEFINITION_MISSING = "DefinitionMissing"
    DEFINITION_OLD = "DefinitionTooOld"
    OBJECT = "TimeBudgetExceeded"
    ENDED = "ServiceEnded"


REMEDIES: Final[dict[Cause, str]] = {
    Cause.SETTINGS: "correct it and start again",
    Cause.BROKER_UNREACHABLE: "check --nats-url, that the broker runs, and NetworkPolicies",
    Cause.BROKER_CREDENTIALS: "check that the broker knows the public key of the file in --nats-credentials-file",
    Cause.BROKER_CERTIFICATE: "check --nats-ca-file, and that the broker has a certificate for the host of --nats-url",
    Cause.BROKER_NO_JETSTREAM: "enable jetstream in the broker and for the account, or correct --nats-jetstream-domain",
    Cause.BROKER_DENIES: "grant it to the broker's user of this service",
    Cause.BROKER_STREAM: "do what the message states",
    Cause.API_UNREACHABLE: "check that it runs, and NetworkPolicies",
    Cause.API_CREDENTIALS: "check the token of the ServiceAccount, or the kubeconfig",
    Cause.PERMISSION: "upgrade the release, which grants it, or add it there",
    Cause.DEFINITION_MISSING: DEFINE,
    Cause.DEFINITION_OLD: DEFINE,
    Cause.OBJECT: "change its spec, labels or annotations, or delete it",
    Cause.ENDED: "see the log of the ended container",
}


@dataclass(frozen=True, slots=True)
class Project:
    """Where CRDs that this project does not have come from."""

    name: str
    install: str


PROJECTS: Final[Mapping[str, Project]] = {
    "serving.kserve.io": Project(
        "KServe",
        "helm install kserve-crd oci://ghcr.io/kserve/charts/kserve-crd, then "
        "helm install kserve oci://ghcr.io/kserve/charts/kserve -n kserve --create-namespace",
    ),
    "gateway.networking.k8s.io": Project(
        "Gateway API",
        "kubectl apply --server-side -f "
        "https://github.com/kubernetes-sigs/gateway-api/releases/latest/download/standard-install.yaml",
    ),
    "keda.sh": Project(
        "KEDA",
        "helm install keda keda --repo https://kedacore.github.io/charts --namespace keda --create-namespace",
    ),
    "opentelemetry.io": Project(
        "OpenTelemetry Operator",
        "kubectl apply -f "
        "https://github.com/open-telemetry/opentelemetry-operator/releases/latest/download/opentelemetry-operator.yaml",
    ),
    "monitoring.coreos.com": Project(
        "Prometheus Operator",
        "kubectl apply --server-side -f "
        "https://github.com/prometheus-operator/prometheus-operator/releases/latest/download/bundle.yaml",
    ),
    "config.kaiwo.silogen.ai": Project("Kaiwo", "see https://github.com/silogen/kaiwo"),
}
"""Projects whose kinds the services watch or write, by API group (FW-771)."""


def to_define(resource: str) -> str:
    """What to do about a CRD that is missing.

    Args:
        resource: `plural.group`.
    """
    group = resource.partition(".")[2]
    if group == DOMAIN:
        return DEFINE
    project = PROJECTS.get(group)
    if project is None:
        return f"install the project that serves the API group {group}" if group else "use a supported API server"
    return f"install {project.name}: {project.install}"


def to_upgrade(resource: str) -> str:
    """What to do about a CRD that lacks a field.

    Args:
        resource: `plural.group`.
    """
    group = resource.partition(".")[2]
    if group == DOMAIN:
        return DEFINE
    return f"upgrade {PROJECTS[group].name if group in PROJECTS else f'what serves the API group {group}'}"
