"""Which changes of nodes matter to somebody who looks at GPUs (FW-115, DI-363)."""

from typing import Final

from aim_shared.api import Node, labels
from aim_shared.bus.entry import Change
from aim_shared.reconcile.changes import differs

_LABEL_PREFIXES: Final = (labels.AMD_PREFIX, labels.AMD_BETA_PREFIX)


def is_significant(change: Change[Node]) -> bool:
    """Creation, deletion, and changes of AMD labels or of the amounts of AMD resources."""
    return differs(change, _digest)


def _digest(node: Node) -> tuple[object, ...]:
    own = {key: value for key, value in node.metadata.labels.items() if key.startswith(_LABEL_PREFIXES)}
    amounts = (
        {name: str(amount) for name, amount in side.items() if name.startswith(labels.AMD_PREFIX)}
        for side in (node.status.capacity, node.status.allocatable)
    )
    return (own, *amounts)
