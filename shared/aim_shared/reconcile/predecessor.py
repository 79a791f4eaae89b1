"""Children of an owner that was deleted and created again under its name."""

from aim_shared.api import Resource
from aim_shared.kube.kinds import ResourceKind


def is_left_by_predecessor(child: Resource, owner: Resource, kind: ResourceKind) -> bool:
    """Whether an earlier owner of this name controls the child: garbage collection has not reached it yet.

    Args:
        owner: the one that is there now.
        kind: the owner's.
    """
    controllers = (one for one in child.metadata.owner_references if one.controller and one.kind == kind.kind)
    return any(one.name == owner.name and one.uid != owner.uid for one in controllers)
