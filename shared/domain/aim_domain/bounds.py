"""How long strings and how many entries the definitions admit where a field says nothing (CC-340).

What a pass costs grows with what an object holds, and a process does all passes of a kind: no field of one object is
without an end. Each value is far above what the field is for; the API server refuses what is larger, and of objects
that were stored before it still lets everything else change (CC-322).
"""

from typing import Final

from controller_runtime import JsonObject

MAX_STRING: Final = 4096
"""Characters of a string."""
MAX_VALUE: Final = 65_536
"""Characters of a value in a map: a label of an image, a variable, an annotation."""
MAX_GPU_MODEL: Final = 64
"""Characters of the name of a GPU model."""
MAX_TIME: Final = 64
"""Characters of a time, whose fraction of a second has no end of its own."""
MAX_ENTRIES: Final = 256
"""Entries of a list, or of a map."""


def bounded(node: JsonObject, *, in_map: bool = False) -> JsonObject:
    """A node of a schema with a bound where it has none."""
    kind = node.get("type")
    if kind == "array":
        node.setdefault("maxItems", MAX_ENTRIES)
    elif kind == "object" and "additionalProperties" in node:
        node.setdefault("maxProperties", MAX_ENTRIES)
    elif node.get("x-kubernetes-int-or-string") or (kind == "string" and "enum" not in node):
        own = MAX_TIME if node.get("format") == "date-time" else MAX_VALUE if in_map else MAX_STRING
        node.setdefault("maxLength", own)
    return node
