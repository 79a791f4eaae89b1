"""Certificates, keys, tokens and kubeconfigs of one cluster, made at each start."""

import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trustme

from aim_local.realcluster.audit import POLICY
from aim_local.realcluster.settings import ClusterSettings
from aim_local.realcluster.users import User, kubeconfig, new_tokens, token_file

_NAMES: Final = ("127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc")
_WEBHOOK_CERTIFICATES: Final = "k8s-webhook-server/serving-certs"
"""Where controller-runtime looks, below the temporary folder."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Where the files are.

    Attributes:
        settings: of the cluster.
        authority: certificate that all servers' certificates are signed by, as PEM.
    """

    settings: ClusterSettings
    authority: bytes

    @classmethod
    def make(cls, settings: ClusterSettings, server: str) -> "Keys":
        """Write everything; ``server`` is the API server's URL."""
        authority = trustme.CA()
        keys = cls(settings, authority.cert_pem.bytes())
        served = authority.issue_cert(*_NAMES)
        webhooks = settings.temporary / _WEBHOOK_CERTIFICATES
        for folder in (settings.private, webhooks):
            folder.mkdir(parents=True, mode=0o700)
        files = {
            keys.ca: keys.authority,
            keys.certificate: served.cert_chain_pems[0].bytes(),
            keys.private_key: served.private_key_pem.bytes(),
            webhooks / "tls.crt": served.cert_chain_pems[0].bytes(),
            webhooks / "tls.key": served.private_key_pem.bytes(),
            keys.service_accounts: authority.issue_cert("service-accounts").private_key_pem.bytes(),
            keys.audit_policy: json.dumps(POLICY).encode(),
        }
        tokens = new_tokens()
        files[keys.tokens] = token_file(tokens).encode()
        for user, token in tokens.items():
            files[keys.kubeconfig(user)] = kubeconfig(server, keys.ca, user, token).encode()
        for path, content in files.items():
            path.touch(mode=0o600)
            path.write_bytes(content)
        return keys

    @property
    def ca(self) -> Path:
        """Certificate of the authority."""
        return self.settings.private / "ca.crt"

    @property
    def certificate(self) -> Path:
        """Certificate of the servers."""
        return self.settings.private / "tls.crt"

    @property
    def private_key(self) -> Path:
        """Key of the servers."""
        return self.settings.private / "tls.key"

    @property
    def service_accounts(self) -> Path:
        """Key that tokens of service accounts are signed with."""
        return self.settings.private / "service-accounts.key"

    @property
    def tokens(self) -> Path:
        """The API server's list of users."""
        return self.settings.private / "tokens.csv"

    @property
    def audit_policy(self) -> Path:
        """What the API server logs."""
        return self.settings.private / "audit-policy.json"

    def kubeconfig(self, user: str) -> Path:
        """A user's."""
        return self.settings.kubeconfig if user == User.ADMIN else self.settings.private / f"{user}.kubeconfig"

    def tls(self) -> ssl.SSLContext:
        """For clients of the servers."""
        return ssl.create_default_context(cadata=self.authority.decode())
