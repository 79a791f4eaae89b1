"""Labels that every child gets beside those of its builder (FW-220…FW-224)."""

from collections.abc import Mapping

from aim_shared.api import LabelPropagation, Resource, labels
from aim_shared.naming import optional_label_value
from aim_shared.reconcile.propagation import propagated_labels


def child_labels(
    own: Mapping[str, str], *, parent: Resource, controller: str, propagation: LabelPropagation | None
) -> dict[str, str]:
    """The labels of a child: the builder's own, then propagated ones, then those of the controller (FW-220).

    Args:
        own: what the builder sets; these win.
        parent: the reconciled object.
        controller: its controller's name of FW-201.
        propagation: of the parent's merged runtime config.
    """
    name = optional_label_value(parent.name)
    by_controller = {
        labels.APP_MANAGED_BY: f"aim-{controller}-controller",
        **({f"{labels.PREFIX}{controller}.name": name} if name else {}),
    }
    return {**by_controller, **propagated_labels(parent.metadata.labels, propagation), **own}
