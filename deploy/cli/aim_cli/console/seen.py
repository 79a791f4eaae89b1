"""What of the log, and of a decision in it, a viewer may see (FW-633, FW-674). Pure."""

import re
from datetime import datetime
from typing import Final

from aim_cli.cluster.refs import JsonObject
from aim_cli.cluster.resources import KNOWN, NAMESPACE
from aim_cli.console.access import Rights
from aim_cli.log.targets import kind_name
from controller_runtime import Key
from controller_runtime.bus.decision import DecisionRecord
from controller_runtime.bus.fact import FACT
from controller_runtime.bus.subjects import FACTS_PART

UNSEEN_CAUSE: Final = "a change that you may not see"
_OF_OBJECTS: Final = ("children", "patches", "deletes")
"""Members of a plan that are lists of what it does to objects, which its reader need not be allowed to see."""
_CAUSE: Final = re.compile(r"(\S+) (?:([^\s/]+)/)?([^\s/]+) (?:appeared|changed|is gone)")


def is_shown(kind: str, key: Key, rights: Rights, at: datetime) -> bool:
    """Whether a viewer may see an object of a kind as it was; of kinds that nobody is asked about nobody."""
    known = next((one for one in KNOWN if one.kind == kind), None)
    return known is not None and rights.admitted(known.resource, key.namespace, at)


def is_seen(kind: str, key: Key, record: DecisionRecord, rights: Rights) -> bool:
    """Whether who sees a decision may see what it read; facts and its own Namespace belong to it."""
    if kind in (FACTS_PART, FACT.kind) or (kind, key) == (NAMESPACE.kind, Key("", record.namespace)):
        kind, key = kind_name(record.part), record.key
    return is_shown(kind, key, rights, record.at)


def saw_all(record: DecisionRecord, rights: Rights) -> bool:
    """Whether a viewer may see all that a decision read and planned.

    What it read is not told by name where there was much of it, so that takes the right to list the kind everywhere.
    """
    reads = record.reads
    named = [(one.part, one.key) for one in reads.objects]
    named += [(one.part, key) for one in reads.indexes for key in one.keys]
    many = ({one.part for one in reads.groups} | {one.part for one in reads.summaries}) - {FACTS_PART}
    return (
        all(is_seen(kind_name(part), key, record, rights) for part, key in named)
        and all(_is_everywhere(kind_name(part), rights) for part in many)
        and not planned(record, rights)[1]
    )


def shown(record: DecisionRecord, rights: Rights) -> DecisionRecord:
    """The decision with those of its writes that a viewer may see."""
    writes = (one for one in record.writes if is_shown(one.kind, Key(one.namespace, one.name), rights, record.at))
    return record.model_copy(update={"writes": tuple(writes)})


def woken_by(record: DecisionRecord, rights: Rights) -> str:
    """What changed before it, in words; empty where nothing did."""
    if not record.woken_by:
        return ""
    told = _CAUSE.fullmatch(record.woken_by)
    if told is None or not is_seen(told[1], Key(told[2] or "", told[3]), record, rights):
        return UNSEEN_CAUSE
    return record.woken_by


def planned(record: DecisionRecord, rights: Rights) -> tuple[JsonObject, int]:
    """The plan without what it does to objects that the viewer may not see, and how much that is."""
    plan, hidden = dict(record.plan), 0
    for member in _OF_OBJECTS:
        # Of a plan that was too long digests are kept, which tell names at most.
        items = plan.get(member)
        if isinstance(items, list):
            plan[member] = [
                one for one in items if is_shown(kind_name(one.get("part", "")), _key(one), rights, record.at)
            ]
            hidden += len(items) - len(plan[member])
    return {name: value for name, value in plan.items() if value not in ([], {})}, hidden


def _is_everywhere(kind: str, rights: Rights) -> bool:
    return any(one.kind == kind and one.resource in rights.everywhere for one in KNOWN)


def _key(item: JsonObject) -> Key:
    metadata = (item.get("body") or {}).get("metadata") or {}
    own = {name: item.get(name) or metadata.get(name) or "" for name in ("namespace", "name")}
    return Key(own["namespace"], own["name"])
