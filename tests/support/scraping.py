"""Clients of a metrics server, who they are at the API server, and certificates."""

import base64
import ssl
from pathlib import Path
from typing import Final

import aiohttp
import trustme
from support.controlplane import RawApi

RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
READER: Final = "test-metrics-reader"
_TOKENS: Final = "kubernetes.io/service-account-token"


async def allow_to_read(api: RawApi, namespace: str, account: str) -> None:
    """Bind the role of metrics readers, as the chart has it."""
    group = "rbac.authorization.k8s.io"
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": READER}, "rules": rules}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": READER},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": READER},
        "subjects": [subject],
    }
    await api.created(f"{RBAC}/clusterroles", role)
    await api.created(f"{RBAC}/clusterrolebindings", binding)


async def planted_token(api: RawApi, namespace: str, account: str) -> str:
    """A token of a ServiceAccount on the embedded control plane, as a cluster with old tokens has it."""
    token = f"token-of-{account}"
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": _TOKENS,
        "metadata": {
            "name": f"{account}-token",
            "namespace": namespace,
            "annotations": {"kubernetes.io/service-account.name": account},
        },
        "data": {"token": base64.b64encode(token.encode()).decode()},
    }
    await api.created(f"/api/v1/namespaces/{namespace}/secrets", secret)
    return token


class Certificates:
    """A CA, and a folder with a certificate of it that can be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._authority = trustme.CA()

    def issue(self, name: str) -> None:
        """Put a new certificate for a name, and its key, into the folder."""
        issued = self._authority.issue_cert(name)
        self.folder.mkdir(exist_ok=True)
        (self.folder / "tls.crt").write_bytes(b"".join(one.bytes() for one in issued.cert_chain_pems))
        (self.folder / "tls.key").write_bytes(issued.private_key_pem.bytes())

    @property
    def client(self) -> ssl.SSLContext:
        """Trusts the CA and nobody else."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._authority.configure_trust(context)
        return context


def anybody() -> ssl.SSLContext:
    """Takes any certificate, as scrapers of self-signed ones do."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def scrape(
    address: str, tls: ssl.SSLContext, authorization: str = "", name: str | None = None
) -> tuple[int, str]:
    """Status and text of the metrics page, by a connection of its own.

    Raises:
        aiohttp.ClientConnectorCertificateError: the certificate is not trusted, or for another name.
    """
    headers = {"authorization": authorization} if authorization else {}
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as session,
        session.get(f"https://{address}/metrics", headers=headers, server_hostname=name) as response,
    ):
        return response.status, await response.text()
