"""The ports of a real cluster, all on the loopback."""

from dataclasses import dataclass

from aim_local.ports import free_ports


@dataclass(frozen=True, slots=True)
class Ports:
    """One port per listener."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int
    kserve_health: int
    kserve_webhook: int
    keda_health: int
    keda_metrics: int

    @classmethod
    def choose(cls) -> "Ports":
        """Free ones."""
        return cls(*free_ports(len(cls.__dataclass_fields__)))
