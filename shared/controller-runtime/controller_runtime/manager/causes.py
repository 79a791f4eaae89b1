"""The closed table of what keeps a service from its work, and what to do (FW-583). Imports nothing heavy."""

from enum import StrEnum
from typing import Final


class Cause(StrEnum):
    """The closed table of reasons, as they stand in `/readyz`, logs and Events."""

    SETTINGS = "InvalidSettings"
    BROKER_UNREACHABLE = "BrokerUnreachable"
    BROKER_CREDENTIALS = "BrokerCredentialsRefused"
    BROKER_CERTIFICATE = "BrokerCertificateRefused"
    BROKER_NO_JETSTREAM = "BrokerWithoutJetStream"
    BROKER_DENIES = "BrokerPermissionMissing"
    API_UNREACHABLE = "KubernetesUnreachable"
    API_CREDENTIALS = "KubernetesCredentialsRefused"
    PERMISSION = "KubernetesPermissionMissing"
    DEFINITION_MISSING = "DefinitionMissing"
    DEFINITION_OLD = "DefinitionTooOld"
    ENDED = "ServiceEnded"


_TO_DEFINE: Final = "upgrade the release with crd.enable, or kubectl apply --server-side -k deploy/crds"

REMEDIES: Final[dict[Cause, str]] = {
    Cause.SETTINGS: "correct it and start again",
    Cause.BROKER_UNREACHABLE: "check --nats-url, that the broker runs, and NetworkPolicies",
    Cause.BROKER_CREDENTIALS: "check that the broker knows the public key of the file in --nats-credentials-file",
    Cause.BROKER_CERTIFICATE: "check --nats-ca-file, and that the broker has a certificate for the host of --nats-url",
    Cause.BROKER_NO_JETSTREAM: "enable jetstream in the broker and for the account, or correct --nats-jetstream-domain",
    Cause.BROKER_DENIES: "grant it to the broker's user of this service",
    Cause.API_UNREACHABLE: "check that it runs, and NetworkPolicies",
    Cause.API_CREDENTIALS: "check the token of the ServiceAccount, or the kubeconfig",
    Cause.PERMISSION: "upgrade the release, which grants it, or add it there",
    Cause.DEFINITION_MISSING: _TO_DEFINE,
    Cause.DEFINITION_OLD: _TO_DEFINE,
    Cause.ENDED: "see the log of the ended container",
}
