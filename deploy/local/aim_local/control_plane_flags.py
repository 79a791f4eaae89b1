"""Flags that the control planes of the real lane and of a node have in common."""

from pathlib import Path
from typing import Final, TypeAlias

Flags: TypeAlias = dict[str, object]
"""Value of each flag, by its name without dashes."""

_AUDIT_MEGABYTES: Final = 4096
"""Before the log is rotated, which would end a count."""


def etcd_flags(folder: Path, client: str, peer: str) -> Flags:
    """Flags of the store. It does not wait for the disk: its data does not outlive the cluster.

    Args:
        client, peer: URLs that it listens on.
    """
    return {
        "name": "aim",
        "data-dir": folder,
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"aim={peer}",
        "unsafe-no-fsync": "true",
        "log-level": "warn",
    }


def apiserver_flags(*, etcd: str, address: object, port: object, account_keys: Path, policy: Path, log: Path) -> Flags:
    """Flags of every API server.

    Args:
        etcd: URL of the store.
        account_keys: signs and verifies tokens of service accounts.
        policy, log: of the audit.
    """
    return {
        "etcd-servers": etcd,
        "bind-address": address,
        "advertise-address": address,
        "secure-port": port,
        "service-account-key-file": account_keys,
        "service-account-signing-key-file": account_keys,
        "kubelet-preferred-address-types": "InternalIP",
        "allow-privileged": "true",
        "audit-policy-file": policy,
        "audit-log-path": log,
        "audit-log-maxsize": _AUDIT_MEGABYTES,
        "profiling": "false",
    }


def component_flags(kubeconfig: Path, address: str, port: int) -> Flags:
    """Flags of the controller manager and of the scheduler, of which there is one each."""
    return {
        "kubeconfig": kubeconfig,
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "leader-elect": "false",
        "bind-address": address,
        "secure-port": port,
        "profiling": "false",
    }
