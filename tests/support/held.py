"""What the objects of our packages hold: the members of all collections, by the attribute that they are in."""

import gc
from collections import Counter, UserDict, defaultdict, deque
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

_COLLECTIONS = (dict, list, set, frozenset, deque, UserDict)


def held(*packages: str) -> Counter[str]:
    """Members by ``Class.attribute``, over all objects of the packages in this process; nested collections count.

    Not those of models, whose number depends on what was decoded last; whoever holds models holds them in something.
    """
    gc.collect()
    found: Counter[str] = Counter()
    for thing in gc.get_objects():
        kind = type(thing)
        # Of some classes of C this is a descriptor.
        if str(kind.__module__).partition(".")[0] not in packages or isinstance(thing, BaseModel):
            continue
        for name, value in _attributes(thing):
            if isinstance(value, _COLLECTIONS):
                found[f"{kind.__qualname__}.{name}"] += _members(value)
    return found


def grown(before: Mapping[str, int], after: Mapping[str, int], more_than: int) -> dict[str, int]:
    """By how much collections grew, where it is more than so many members."""
    growth = {name: count - before.get(name, 0) for name, count in after.items()}
    return {name: more for name, more in growth.items() if more > more_than}


def _attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    yield from vars(thing).items() if hasattr(thing, "__dict__") else ()
    for base in type(thing).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            if hasattr(thing, name):
                yield name, getattr(thing, name)


def _members(value: Any) -> int:
    # A look-up must not make what it looks for.
    inner = dict(value).values() if isinstance(value, dict | defaultdict | UserDict) else value
    return len(value) + sum(len(one) for one in inner if isinstance(one, _COLLECTIONS))
