"""How an installation in a cluster names its broker, for the remedies of what cannot reach it (FW-730)."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from typing import Final

import urllib3

from aim_cli.cluster.asking import KubeReader, reading
from aim_cli.cluster.refs import JsonObject
from aim_cli.cluster.targets import HERE, Where
from aim_domain.kind_names import STATEFUL_SET

OURS: Final = "app.kubernetes.io/name=aim-engine"
"""Selects what the chart creates."""
_BRIEF: Final = urllib3.Timeout(connect=1, read=2)
_PATIENCE: Final = 3.0
"""Seconds by which a remedy may be late."""


@dataclass(frozen=True, slots=True)
class BrokerNames:
    """The namespace and the Service of a bundled broker; the defaults are those of the quick start.

    Attributes:
        flags: the options of kubectl for its cluster, as of `Where`.
    """

    namespace: str = "aim-system"
    service: str = "aim-engine-nats"
    flags: str = ""

    @property
    def port_forward(self) -> str:
        """The command that makes the broker reachable from here."""
        return f"kubectl{self.flags} port-forward -n {self.namespace} service/{self.service} 4222"

    @property
    def reader_secret(self) -> str:
        """The Secret of the user who may read the log."""
        return f"{self.service}-aim"


DEFAULT_NAMES: Final = BrokerNames()


def brokers(cluster: KubeReader) -> list[JsonObject]:
    """The StatefulSets of bundled brokers."""
    return cluster.search(STATEFUL_SET, labels=OURS)


def names_of(stateful_sets: Iterable[JsonObject], where: Where = HERE) -> BrokerNames:
    """The names of the only broker of a cluster; of none and of several, which may be of others, the defaults."""
    match list(stateful_sets):
        case [only]:
            return BrokerNames(only["metadata"]["namespace"], only["metadata"]["name"], where.flags)
        case _:
            return BrokerNames(flags=where.flags)


def find_names(where: Where = HERE) -> BrokerNames:
    """The names in the cluster that a command asks, as far as it answers within seconds."""
    found = [BrokerNames(flags=where.flags)]

    def look() -> None:
        # An answer that no API server gives must not add an error to the one that the remedy is for.
        with suppress(Exception), reading(where.kubeconfig, where.context, timeout=_BRIEF, retries=0) as cluster:
            found.append(names_of(brokers(cluster), where))

    # A kubeconfig can name a program for credentials, which may wait for a person; the process does not wait for it.
    looking = Thread(target=look, daemon=True)
    looking.start()
    looking.join(_PATIENCE)
    return found[-1]
