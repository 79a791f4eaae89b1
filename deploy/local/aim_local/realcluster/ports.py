"""Free ports on the loopback."""

import socket
from dataclasses import dataclass
from typing import Final

HOST: Final = "127.0.0.1"


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
        """Free ones; held together while choosing, so that all differ."""
        held = [socket.socket() for _ in cls.__dataclass_fields__]
        try:
            for one in held:
                one.bind((HOST, 0))
            return cls(*(int(one.getsockname()[1]) for one in held))
        finally:
            for one in held:
                one.close()
