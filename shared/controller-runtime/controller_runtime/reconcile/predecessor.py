"""Children of an owner that was deleted and created again under its name."""

from controller_runtime.api.meta import Resource
from controller_runtime.kube.kinds import ResourceKind


def is_left_by_predecessor(child: Resource, owner: Resource, kind: ResourceKind) -> bool:
    """Whether an earlier owner of this name controls the child: garbage collection has not reached it yet.

    Args:
        owner: the one that is there now.
        kind: the owner's.
    """
    return any(
        one.name == owner.name and one.uid != owner.uid
        for one in child.metadata.owner_references
        # Not by version: what an earlier release made is a predecessor's as well.
        if one.controller and (one.api_version.rpartition("/")[0], one.kind) == (kind.group, kind.kind)
    )
