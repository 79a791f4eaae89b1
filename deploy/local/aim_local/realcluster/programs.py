"""Which programs make up a real cluster, with which arguments and variables."""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import aiohttp

from aim_local.assets import Program as Asset
from aim_local.assets import Toolset
from aim_local.control_plane_flags import Flags, apiserver_flags, component_flags, etcd_flags
from aim_local.ports import HOST
from aim_local.realcluster.keys import Keys
from aim_local.realcluster.ports import Ports
from aim_local.realcluster.settings import ClusterSettings
from aim_local.realcluster.users import User
from aim_local.supervision.probes import http_probe
from aim_local.supervision.process import Probe, Program

SERVICE_RANGE: Final = "10.96.0.0/16"
"""KServe makes a Service for each InferenceService; a /24 would end at 253 of them."""

_PROBE_SECONDS: Final = 5.0

KSERVE_NAMESPACE: Final = "kserve"
KEDA_NAMESPACE: Final = "keda"


@dataclass(frozen=True, slots=True)
class Programs:
    """Builds the programs of one cluster."""

    settings: ClusterSettings
    toolset: Toolset
    ports: Ports
    keys: Keys

    @property
    def server(self) -> str:
        """URL of the API server."""
        return f"https://{HOST}:{self.ports.apiserver}"

    def etcd(self) -> Program:
        """The store."""
        client, peer = f"http://{HOST}:{self.ports.etcd}", f"http://{HOST}:{self.ports.etcd_peer}"
        flags = etcd_flags(self.settings.etcd, client, peer)
        return self._program(Asset.ETCD, flags, http_probe(f"{client}/readyz"), client)

    def apiserver(self) -> Program:
        """The API server; ready when its bootstrap roles are there, too."""
        keys = self.keys
        flags = {
            **apiserver_flags(
                etcd=f"http://{HOST}:{self.ports.etcd}",
                address=HOST,
                port=self.ports.apiserver,
                account_keys=keys.service_accounts,
                policy=keys.audit_policy,
                log=self.settings.audit_log,
            ),
            # It would refuse to publish a loopback address as the endpoint of the Service `kubernetes`.
            "endpoint-reconciler-type": "none",
            "tls-cert-file": keys.certificate,
            "tls-private-key-file": keys.private_key,
            "service-cluster-ip-range": SERVICE_RANGE,
            "service-account-issuer": "https://kubernetes.default.svc",
            "token-auth-file": keys.tokens,
            "authorization-mode": "RBAC",
            "enable-admission-plugins": "OwnerReferencesPermissionEnforcement",
        }
        if not self.settings.makes_accounts:
            # No controller makes the service account that this plugin looks for.
            flags["disable-admission-plugins"] = "ServiceAccount"
        ready = _https_probe(f"{self.server}/readyz", keys.tls())
        return self._program(Asset.APISERVER, flags, ready, self.server)

    def controllers(self) -> list[Program]:
        """All that the settings ask for besides the API server and its store."""
        wanted = {
            self.controller_manager: bool(self.settings.controllers),
            self.scheduler: self.settings.scheduler,
            self.kserve: self.settings.kserve,
            self.keda: self.settings.keda,
        }
        return [build() for build, is_wanted in wanted.items() if is_wanted]

    def controller_manager(self) -> Program:
        """The controllers that the settings name."""
        keys, url = self.keys, f"https://{HOST}:{self.ports.controller_manager}"
        flags = {
            "controllers": ",".join(self.settings.controllers),
            "service-account-private-key-file": keys.service_accounts,
            "root-ca-file": keys.ca,
            "kube-api-qps": 500,
            "kube-api-burst": 1000,
            **self._component(User.CONTROLLER_MANAGER, self.ports.controller_manager),
        }
        return self._program(Asset.CONTROLLER_MANAGER, flags, _https_probe(f"{url}/healthz", keys.tls()), url)

    def scheduler(self) -> Program:
        """The scheduler."""
        url = f"https://{HOST}:{self.ports.scheduler}"
        flags = {
            "kube-api-qps": 500,
            "kube-api-burst": 1000,
            **self._component(User.SCHEDULER, self.ports.scheduler),
        }
        return self._program(Asset.SCHEDULER, flags, _https_probe(f"{url}/healthz", self.keys.tls()), url)

    def kserve(self) -> Program:
        """KServe's controller and webhooks; its webhook port listens on every address, which no flag changes."""
        url = f"http://{HOST}:{self.ports.kserve_health}"
        flags = {
            "metrics-addr": "0",
            "health-probe-addr": f"{HOST}:{self.ports.kserve_health}",
            "webhook-port": self.ports.kserve_webhook,
        }
        env = {"KUBECONFIG": str(self.keys.kubeconfig(User.KSERVE)), "POD_NAMESPACE": KSERVE_NAMESPACE}
        return self._program(Asset.KSERVE, flags, http_probe(f"{url}/readyz"), url, env)

    def keda(self) -> Program:
        """KEDA's operator, which turns ScaledObjects into HPAs; there is no server of external metrics."""
        url = f"http://{HOST}:{self.ports.keda_health}"
        flags = {
            "enable-prometheus-metrics": "false",
            "metrics-bind-address": "0",
            "health-probe-bind-address": f"{HOST}:{self.ports.keda_health}",
            "metrics-service-bind-address": f"{HOST}:{self.ports.keda_metrics}",
            "cert-dir": self.settings.private,
            "enable-cert-rotation": "false",
            "enable-webhook-patching": "false",
            "enable-apiservice-patching": "false",
            "kube-api-qps": 500,
            "kube-api-burst": 1000,
        }
        env = {
            "KUBECONFIG": str(self.keys.kubeconfig(User.KEDA)),
            "POD_NAMESPACE": KEDA_NAMESPACE,
            "KEDA_CLUSTER_OBJECT_NAMESPACE": KEDA_NAMESPACE,
            "POD_NAME": "keda-operator-0",
            "WATCH_NAMESPACE": "",
        }
        return self._program(Asset.KEDA, flags, http_probe(f"{url}/readyz"), url, env)

    def _component(self, user: User, port: int) -> Flags:
        return {
            **component_flags(self.keys.kubeconfig(user), HOST, port),
            "tls-cert-file": self.keys.certificate,
            "tls-private-key-file": self.keys.private_key,
        }

    def _program(
        self, asset: Asset, flags: Mapping[str, object], probe: Probe, url: str, env: Mapping[str, str] | None = None
    ) -> Program:
        command = [str(self.toolset.program(asset)), *(f"--{name}={value}" for name, value in flags.items())]
        return Program(asset, command, {**self._environment(), **(env or {})}, probe, url)

    def _environment(self) -> dict[str, str]:
        # Nothing else is inherited: proxies and kubeconfigs of the user must not reach a cluster on the loopback.
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.settings.folder),
            "TMPDIR": str(self.settings.temporary),
        }


def _https_probe(url: str, tls: ssl.SSLContext) -> Probe:
    """Ready when a GET is answered with success by a server that the authority vouches for."""

    async def probe() -> str:
        timeout = aiohttp.ClientTimeout(total=_PROBE_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
                session.get(url, ssl=tls) as answer,
            ):
                return "" if answer.ok else f"{url} answers {answer.status}: {(await answer.text())[-400:]}"
        except (aiohttp.ClientError, TimeoutError) as error:
            return f"{url} does not answer: {str(error) or type(error).__name__}"

    return probe
