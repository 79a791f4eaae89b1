"""What every clean-up asks first: is the namespace going away anyway? (FW-185…FW-187)"""

from controller_runtime.bus.view import Lookup
from controller_runtime.core.namespace import Namespace
from controller_runtime.errors import ClassifiedError


def namespace_terminating(namespace: str, lookup: Lookup[Namespace]) -> bool | ClassifiedError:
    """Whether clean-up can be skipped because the namespace and all in it go away.

    A namespace that does not exist counts as terminating. Where that is not known, the error is to be retried.
    """
    if not namespace:
        return False
    if lookup.error is not None:
        return lookup.error
    return lookup.value is None or lookup.value.deleting
