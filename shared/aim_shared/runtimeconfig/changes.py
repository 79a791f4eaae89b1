"""Which changes of runtime configs matter to those who follow them."""

from typing import TypeVar

from aim_shared.api import AIMClusterRuntimeConfig, AIMRuntimeConfig
from aim_shared.bus.entry import Change
from aim_shared.reconcile.changes import differs

C = TypeVar("C", AIMRuntimeConfig, AIMClusterRuntimeConfig)


def is_significant(change: Change[C]) -> bool:
    """Whether a config has come, gone, or says something else; nobody follows its status."""
    return differs(change, lambda config: (config.uid, config.spec))
