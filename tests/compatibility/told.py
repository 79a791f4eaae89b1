"""What a release says that it writes on the broker, as JSON; run with the packages of that release.

It names only what both releases have, so that the former one can run it.
"""

import importlib
import json
from dataclasses import MISSING, fields
from typing import Any

_MODULES = {
    "log.broker.streams": "bus.streams",
    "log.history.decisions": "bus.decision",
    "log.history.facts": "bus.fact",
    "log.publish.checkpoint": "bus.marker",
    "log.wire.messages": "bus.envelope",
    "log.wire.part": "bus.part",
    "log.wire.subjects": "bus.subjects",
}
"""Where things are, and where the former release has them."""


def found(module: str, name: str) -> Any:
    """Something of the framework, in whichever release this runs."""
    try:
        place = importlib.import_module(f"controller_runtime.{module}")
    except ModuleNotFoundError:
        place = importlib.import_module(f"controller_runtime.{_MODULES[module]}")
    return getattr(place, name)


DecisionRecord, Fact = found("log.history.decisions", "DecisionRecord"), found("log.history.facts", "Fact")
Marker = found("log.publish.checkpoint", "Marker")
Header, EVENT_TYPES = found("log.wire.messages", "Header"), found("log.wire.messages", "EVENT_TYPES")
Key, Layout = found("log.wire.part", "Key"), found("log.wire.subjects", "Layout")
StreamLimits, configs = found("log.broker.streams", "StreamLimits"), found("log.broker.streams", "configs")


def told() -> dict[str, Any]:
    """Streams, subjects, headers, markers and models."""
    layout, key = Layout(), Key("a-namespace", "an.object")
    subjects = {
        "state": layout.state("part", key),
        "log": layout.log("part", key),
        "sync": layout.sync("part"),
        "sync of facts": layout.sync("facts", "serving"),
        "decision": layout.decision("serving", "part", key),
        "settings": layout.settings("serving", "digest"),
    }
    return {
        "streams": {one["name"]: one for one in configs(layout, StreamLimits())},
        "subjects": subjects,
        "headers": {name: value for name, value in vars(Header).items() if not name.startswith("_")},
        "types": {str(verb): name for verb, name in EVENT_TYPES.items()},
        "marker": {
            one.name: {"type": getattr(one.type, "__name__", str(one.type)), "required": one.default is MISSING}
            for one in fields(Marker)
        },
        "models": {one.__name__: one.model_json_schema(by_alias=True) for one in (DecisionRecord, Fact)},
    }


if __name__ == "__main__":
    print(json.dumps(told()))
