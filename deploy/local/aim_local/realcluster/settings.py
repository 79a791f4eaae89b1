"""Settings of a real cluster, and where its files are."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

CRDS: Final = Path(__file__).parents[4] / "deploy" / "crds"
"""The platform's own definitions."""
PERMISSIONS: Final = CRDS.parent / "charts" / "aim-engine" / "files" / "permissions.yaml"
"""What the chart allows the services."""

CONTROLLERS: Final = ("*", "-node-lifecycle-controller", "-horizontal-pod-autoscaler-controller")
"""All but two: no kubelet sends heartbeats of nodes, and no server has metrics to scale by."""
_ACCOUNTS: Final = "serviceaccount-controller"


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How a real cluster runs; durations are seconds.

    Attributes:
        folder: state, logs and kubeconfigs; what an earlier cluster left there is replaced.
        controllers: those of the controller manager that run, as its flag of that name takes them; none = it does not.
        scheduler: whether the scheduler runs.
        kserve: whether KServe's controller runs, with its webhooks; its Deployments need controllers.
        keda: whether KEDA's operator runs; it must have been built on request.
        roles: whether the services have the chart's roles from the start; without, the installation brings them.
        crds: folder with the platform's definitions.
        start_timeout: how long any process may take until it is ready, and the definitions until they can be used.
        stop_patience: how long a process may take to end before it is killed.
    """

    folder: Path
    controllers: tuple[str, ...] = CONTROLLERS
    scheduler: bool = True
    kserve: bool = True
    keda: bool = False
    roles: bool = True
    crds: Path = CRDS
    start_timeout: float = 120.0
    stop_patience: float = 20.0

    @property
    def makes_accounts(self) -> bool:
        """Whether namespaces get the service account that Pods go by."""
        wanted = self.controllers
        return f"-{_ACCOUNTS}" not in wanted and ("*" in wanted or _ACCOUNTS in wanted)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.folder / "kubeconfig"

    @property
    def logs(self) -> Path:
        """One file per process."""
        return self.folder / "logs"

    @property
    def audit_log(self) -> Path:
        """Every request to the API server, a JSON object per line."""
        return self.logs / "audit.log"

    @property
    def etcd(self) -> Path:
        """The store's data."""
        return self.folder / "etcd"

    @property
    def private(self) -> Path:
        """Keys, tokens and kubeconfigs."""
        return self.folder / "private"

    @property
    def temporary(self) -> Path:
        """Temporary folder of the processes; controllers look for their webhook certificates below it."""
        return self.folder / "tmp"
