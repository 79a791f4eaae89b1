"""How an installation in a cluster names its broker, for the remedies of what cannot reach it (FW-730)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import urllib3

from aim_cli.cluster.asking import KubeReader, reading
from aim_cli.cluster.refs import JsonObject
from aim_cli.errors import CliError
from aim_domain.kind_names import STATEFUL_SET

OURS: Final = "app.kubernetes.io/name=aim-engine"
"""Selects what the chart creates."""
_BRIEF: Final = urllib3.Timeout(connect=1, read=2)
"""A remedy is late by no more than this."""


@dataclass(frozen=True, slots=True)
class BrokerNames:
    """The namespace and the Service of a bundled broker; the defaults are those of the quick start."""

    namespace: str = "aim-system"
    service: str = "aim-engine-nats"

    @property
    def port_forward(self) -> str:
        """The command that makes the broker reachable from here."""
        return f"kubectl port-forward -n {self.namespace} service/{self.service} 4222"

    @property
    def reader_secret(self) -> str:
        """The Secret of the user who may read the log."""
        return f"{self.service}-aim"


DEFAULT_NAMES: Final = BrokerNames()


def brokers(cluster: KubeReader) -> list[JsonObject]:
    """The StatefulSets of bundled brokers."""
    return cluster.search(STATEFUL_SET, labels=OURS)


def names_of(stateful_sets: Iterable[JsonObject]) -> BrokerNames:
    """The names of the only broker of a cluster; of none and of several, which may be of others, the defaults."""
    match list(stateful_sets):
        case [only]:
            return BrokerNames(only["metadata"]["namespace"], only["metadata"]["name"])
        case _:
            return DEFAULT_NAMES


def find_names() -> BrokerNames:
    """The names in the cluster of the user's kubeconfig, as far as it answers within seconds."""
    try:
        with reading(None, None, timeout=_BRIEF, retries=0) as cluster:
            return names_of(brokers(cluster))
    except CliError:
        return DEFAULT_NAMES
