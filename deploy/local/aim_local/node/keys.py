"""Certificates, tokens and kubeconfigs of a machine's nodes, made at each start."""

import secrets
import ssl
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final

import trustme
import yaml

from aim_local.node.settings import CLUSTER_DOMAIN, NodeSettings

_MASTERS: Final = "system:masters"
ADMIN: Final = "admin"
CONTROLLER_MANAGER: Final = "system:kube-controller-manager"
SCHEDULER: Final = "system:kube-scheduler"
PROXY: Final = "system:kube-proxy"
FRONT_PROXY: Final = "front-proxy-client"


def node_user(settings: NodeSettings) -> str:
    """What the API server calls the kubelet of a node."""
    return f"system:node:{settings.name}"


@dataclass(frozen=True, slots=True)
class Keys:
    """Where the files are, in a folder that root alone may read.

    Attributes:
        folder: of all of them.
        settings: of the node with the control plane.
        authority: signs all certificates; its key is never written.
    """

    folder: Path
    settings: NodeSettings
    authority: trustme.CA = field(default_factory=trustme.CA)

    def write(self) -> None:
        """Make everything."""
        self.folder.mkdir(parents=True, mode=0o700)
        self._put("ca.crt", self.authority.cert_pem.bytes())
        service = f"kubernetes.default.svc.{CLUSTER_DOMAIN}"
        addresses = (self.settings.address, self.settings.kubernetes_service, IPv4Address("127.0.0.1"))
        names = ("localhost", *_shortened(service), *map(str, addresses))
        self._pair("apiserver", self.authority.issue_cert(*names))
        for one in self.settings.nodes:
            self._pair(f"kubelet-{one.name}", self.authority.issue_cert(one.name, str(one.address)))
        self._client("apiserver-kubelet", "kube-apiserver-kubelet-client", _MASTERS)
        self._client(FRONT_PROXY, FRONT_PROXY)
        self._pair("service-accounts", self.authority.issue_cert(common_name="service-accounts"))
        tokens = {user: secrets.token_urlsafe(24) for user in self._users()}
        rows = [f'{token},{user},{user},"{self._users()[user]}"\n' for user, token in tokens.items()]
        self._put("tokens.csv", "".join(rows).encode())
        for user, token in tokens.items():
            self._put(self.kubeconfig(user).name, self._config(user, token).encode())
        admin = self.settings.kubeconfig
        admin.touch(mode=0o600)
        admin.write_text(self._config(ADMIN, tokens[ADMIN]), encoding="utf-8")

    def kubeconfig(self, user: str) -> Path:
        """That of a user of the token file."""
        return self.folder / f"{user.rpartition(':')[2]}.kubeconfig"

    def file(self, name: str) -> Path:
        """One of the files."""
        return self.folder / name

    def trusting(self) -> ssl.SSLContext:
        """For clients of the servers."""
        return ssl.create_default_context(cafile=str(self.folder / "ca.crt"))

    def webhook(self, *names: str) -> tuple[str, str]:
        """Certificate and key (PEM) of a server that runs in a pod."""
        issued = self.authority.issue_cert(*names)
        return issued.cert_chain_pems[0].bytes().decode(), issued.private_key_pem.bytes().decode()

    def _users(self) -> dict[str, str]:
        return {
            ADMIN: _MASTERS,
            CONTROLLER_MANAGER: "",
            SCHEDULER: "",
            PROXY: "",
            **{node_user(one): "system:nodes" for one in self.settings.nodes},
        }

    def _client(self, file: str, name: str, organization: str | None = None) -> None:
        # Without a name in it, the extension of alternative names is critical, and Go refuses the certificate.
        self._pair(file, self.authority.issue_cert(name, common_name=name, organization_name=organization))

    def _pair(self, name: str, issued: trustme.LeafCert) -> None:
        self._put(f"{name}.crt", issued.cert_chain_pems[0].bytes())
        self._put(f"{name}.key", issued.private_key_pem.bytes())

    def _put(self, name: str, content: bytes) -> None:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_bytes(content)

    def _config(self, user: str, token: str) -> str:
        name = "aim-node"
        authority = str(self.folder / "ca.crt")
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": name, "cluster": {"server": self.settings.server, "certificate-authority": authority}}
            ],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
            "current-context": name,
        }
        return yaml.safe_dump(config, sort_keys=False)


def _shortened(name: str) -> list[str]:
    """A name of a Service with each number of its parts, from two on."""
    parts = name.split(".")
    return ["kubernetes", *(".".join(parts[:length]) for length in range(2, len(parts) + 1))]
