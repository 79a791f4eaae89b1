"""What a release says that it writes on the broker, as JSON; run with the packages of that release.

It names only what both releases have, so that the former one can run it.
"""

import importlib
import json
from dataclasses import MISSING, fields, is_dataclass
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
_RENAMED = {"RecordedStanding": "RecordedPosition"}
"""Models that the former release calls otherwise; their names are not written."""


def place(module: str) -> Any:
    """A module of the framework, in whichever release this runs."""
    try:
        return importlib.import_module(f"controller_runtime.{module}")
    except ModuleNotFoundError:
        return importlib.import_module(f"controller_runtime.{_MODULES[module]}")


def found(module: str, name: str) -> Any:
    """Something of a module."""
    return getattr(place(module), name)


DecisionRecord, Fact = found("log.history.decisions", "DecisionRecord"), found("log.history.facts", "Fact")
CHECKPOINTS = place("log.publish.checkpoint")
Checkpoint = getattr(CHECKPOINTS, "Checkpoint", None) or CHECKPOINTS.Marker
Header, EVENT_TYPES = found("log.wire.messages", "Header"), found("log.wire.messages", "EVENT_TYPES")
Key, Layout = found("log.wire.part", "Key"), found("log.wire.subjects", "Layout")
STREAMS = place("log.broker.streams")
stream_configs = getattr(STREAMS, "stream_configs", None) or STREAMS.configs


def reported() -> dict[str, Any]:
    """Streams, subjects, headers, checkpoints and models."""
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
        "streams": {one["name"]: one for one in stream_configs(layout, STREAMS.StreamLimits())},
        "subjects": subjects,
        "headers": {value: value for name, value in vars(Header).items() if not name.startswith("_")},
        "types": {str(verb): name for verb, name in EVENT_TYPES.items()},
        "checkpoint": {
            one.name: {"type": type_name(one.type), "required": one.default is MISSING} for one in fields(Checkpoint)
        },
        "models": {one.__name__: schema(one) for one in (DecisionRecord, Fact)},
    }


def type_name(found: Any) -> str:
    """What a field holds on the wire: a class with fields is an object, whatever it is called."""
    return "object" if is_dataclass(found) else getattr(found, "__name__", str(found))


def schema(model: Any) -> Any:
    """The JSON schema of a model, with the names that its parts have today."""
    text = json.dumps(model.model_json_schema(by_alias=True))
    for former, present in _RENAMED.items():
        text = text.replace(f'"{former}"', f'"{present}"').replace(f'/{former}"', f'/{present}"')
    return json.loads(text)


if __name__ == "__main__":
    print(json.dumps(reported()))
