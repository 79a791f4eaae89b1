# What others may rely on. The names are loaded when they are first used.
from .child import Target as Target
from .child import children_in_order as children_in_order
from .child import foreign_owner as foreign_owner
from .child import to_create as to_create
from .child import to_update as to_update
from .child import with_owner as with_owner
from .queue import TokenBucket as TokenBucket
from .queue import WorkQueue as WorkQueue
