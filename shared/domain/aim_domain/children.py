"""Labels that every child gets beside those of its builder (FW-220…FW-224)."""

from collections.abc import Mapping

from aim_domain import labels
from aim_domain.api.runtime_config import LabelPropagation
from aim_domain.naming import optional_label_value
from aim_domain.propagation import propagated_labels
from controller_runtime import Resource


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
