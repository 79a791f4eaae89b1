"""What a release says that it writes on the broker, as JSON; run with the packages of that release.

It names only what both releases have, so that the former one can run it.
"""

import json
from dataclasses import MISSING, fields
from typing import Any

from controller_runtime.log.broker.streams import StreamLimits, configs
from controller_runtime.log.history.decisions import DecisionRecord
from controller_runtime.log.history.facts import Fact
from controller_runtime.log.publish.checkpoint import Marker
from controller_runtime.log.wire.messages import EVENT_TYPES, Header
from controller_runtime.log.wire.part import Key
from controller_runtime.log.wire.subjects import Layout


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
        "marker": {one.name: {"type": str(one.type), "required": one.default is MISSING} for one in fields(Marker)},
        "models": {one.__name__: one.model_json_schema(by_alias=True) for one in (DecisionRecord, Fact)},
    }


if __name__ == "__main__":
    print(json.dumps(told()))
