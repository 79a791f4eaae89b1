"""Whether children may be created in a namespace (DI-010)."""

from dataclasses import dataclass

from aim_domain.parts import NAMESPACES
from controller_runtime import ClassifiedError, View


@dataclass(frozen=True, slots=True)
class WorkNamespace:
    """The namespace that children go to.

    Attributes:
        usable: it exists and is not going away.
        errors: why that is not known.
    """

    usable: bool
    errors: tuple[ClassifiedError, ...] = ()


def work_namespace(view: View, namespace: str) -> WorkNamespace:
    """State of a namespace; the empty one stands for the cluster."""
    if not namespace:
        return WorkNamespace(usable=True)
    found = view.get(NAMESPACES, None, namespace)
    if found.error is not None:
        return WorkNamespace(usable=False, errors=(found.error,))
    return WorkNamespace(found.value is not None and not found.value.deleting)
