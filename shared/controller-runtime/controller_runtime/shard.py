"""Which objects a leader answers for, where the replicas of a service share its work by namespace (FW-890)."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from controller_runtime.annotation_keys import SHARDS

MOST_SHARDS: Final = 16
"""Each of them has a Lease, which its holder renews every two seconds."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One of the shards of a service.

    Attributes:
        index: from 0; cluster-scoped objects belong to 0, whose leader publishes the parts of the service as well.
        count: of all shards; 1 = the service is not divided.
    """

    index: int = 0
    count: int = 1

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def owns(self, namespace: str) -> bool:
        """Whether the objects of a namespace belong here; empty stands for cluster-scoped ones."""
        return shard_of(namespace, self.count) == self.index

    def lease(self, service: str) -> str:
        """Name of the Lease whose holder leads it.

        Args:
            service: name of the Lease of a service that is not divided.
        """
        return service if self.index == 0 else f"{service}-{self.index}"


WHOLE: Final = Shard()
"""All objects of a service that is not divided."""


def shard_of(namespace: str, count: int) -> int:
    """Index of the shard of a namespace, the same in every process and release."""
    return zlib.crc32(namespace.encode()) % count if namespace else 0


def noted_count(annotations: Mapping[str, str]) -> int:
    """Into how many shards the holder of a Lease divides its service (FW-891); 1 where the annotation is no number."""
    noted = annotations.get(SHARDS, "")
    # The annotation may hold thousands of digits, which Python refuses to read.
    return int(noted) if noted.isascii() and noted.isdecimal() and len(noted) <= 2 and int(noted) > 0 else 1


def shards(count: int) -> tuple[Shard, ...]:
    """All shards of a service."""
    return tuple(Shard(index, count) for index in range(count))
