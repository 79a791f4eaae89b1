"""Who holds the storage that an artifact waits for (FW-605). Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aim_cli.cluster.refs import JsonObject
from aim_cli.units import bytes_of, format_size
from aim_domain import labels

REASONS: Final = {"NamespaceQuotaExceeded": False, "ClusterQuotaExceeded": True, "WaitingForEviction": False}
"""Reasons of ``StorageQuotaReady``, and whether the volumes of all namespaces count."""
_MOST: Final = 5


@dataclass(frozen=True, slots=True)
class Holder:
    """A volume that counts.

    Attributes:
        users: pods that mount it.
        kept: why it is not evicted; empty where nothing says so.
    """

    namespace: str
    claim: str
    artifact: str
    size: int
    users: tuple[str, ...]
    kept: str

    @property
    def data(self) -> JsonObject:
        """For ``-o json``."""
        named = {"namespace": self.namespace, "claim": self.claim, "artifact": self.artifact, "bytes": self.size}
        return {**named, "users": list(self.users), "kept": self.kept}

    def __str__(self) -> str:
        why = self.kept or "may be evicted"
        return f"{format_size(self.size)} by AIMArtifact {self.namespace}/{self.artifact} ({why})"


def holders(claims: Iterable[JsonObject], artifacts: Iterable[JsonObject], pods: Iterable[JsonObject]) -> list[Holder]:
    """The volumes of artifacts, the largest first."""
    users = _users(pods)
    known = {one["metadata"]["uid"]: one for one in artifacts}
    found = []
    for claim in claims:
        metadata = claim["metadata"]
        owners = [one for one in metadata.get("ownerReferences") or () if one.get("kind") == "AIMArtifact"]
        if not owners:
            continue
        mounted = users.get((metadata["namespace"], metadata["name"]), ())
        kept = _why_kept(known.get(owners[0].get("uid", "")), mounted)
        size = bytes_of(((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage"))
        found.append(Holder(metadata["namespace"], metadata["name"], owners[0]["name"], size, mounted, kept))
    return sorted(found, key=lambda one: (-one.size, one.namespace, one.artifact))


def describe(found: list[Holder]) -> tuple[str, ...]:
    """A line for each of the largest, and one for the rest."""
    rest = found[_MOST:]
    more = (f"{format_size(sum(one.size for one in rest))} by {len(rest)} more",) if rest else ()
    return (*(str(one) for one in found[:_MOST]), *more)


def _users(pods: Iterable[JsonObject]) -> dict[tuple[str, str], tuple[str, ...]]:
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for pod in pods:
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        for volume in pod["spec"].get("volumes") or ():
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if name:
                where = pod["metadata"]["namespace"], name
                found[where] = (*found.get(where, ()), pod["metadata"]["name"])
    return found


def _why_kept(artifact: JsonObject | None, users: tuple[str, ...]) -> str:
    if users:
        return f"in use by pod {users[0]}" + (f" and {len(users) - 1} more" if users[1:] else "")
    annotations = (artifact or {}).get("metadata", {}).get("annotations") or {}
    if annotations.get(labels.ANNOTATION_EVICTION_PROTECTED) == labels.TRUE:
        return "protected by its annotation"
    if artifact is not None and (artifact.get("spec") or {}).get("retentionPriority") is None:
        return "not in use; it has no retention priority of its own"
    return ""
