"""One decision: what it read, what it planned and wrote, and whether the code of today decides the same (FW-674)."""

import json

from aim_cli.cluster.refs import KNOWN, JsonObject, Ref
from aim_cli.log.targets import kind_name
from aim_cli.log.timeline import trace_id
from aim_cli.services import services
from aim_console.access import Rights, is_seen, is_shown, redact, saw_all, visible_plan, woken_by
from aim_console.log_pages import PageRequest
from aim_console.past import address, because
from controller_runtime import Key
from controller_runtime.log import DecisionFilter, DecisionRecord, History
from controller_runtime.replay import Replayed, Replayer


async def decision_page(log: History, asked: PageRequest, wanted: str) -> JsonObject | None:
    """The decision with an id; ``None`` if the log holds none about the object.

    Raises:
        BusError: the log cannot be read.
    """
    part, key = asked.target.part.name, asked.target.key
    found = next((one.record for one in await log.decisions_of(part, key) if one.record.id == wanted), None)
    if found is None or not asked.may_see(found.at):
        return None
    moment = DecisionFilter(found.service, part, key.namespace, key.name, found.at, found.at)
    again = [one async for one in Replayer(log, services()).decisions(moment) if one.stored.record.id == wanted]
    return decision_json(found, again[0] if again else None, asked)


def decision_json(record: DecisionRecord, again: Replayed | None, asked: PageRequest) -> JsonObject:
    """What stands on the page, as far as its viewer may see it.

    Args:
        again: ``None`` where the log has lost it in the meantime.
    """
    rights = asked.rights
    read = [one for one in record.reads.objects if is_seen(kind_name(one.part), one.key, record, rights)]
    plan, hidden = visible_plan(record, rights)
    return {
        "ref": asked.ref,
        "record": record,
        "woken_by": woken_by(record, rights),
        "then": address(asked.ref, record.at),
        "trace": trace_id(record.traceparent),
        "read": [
            {
                "what": f"{kind_name(one.part)} {one.key}",
                "href": _href(kind_name(one.part), one.key, record, rights),
                "version": one.resource_version if one.uid else "",
                "found": bool(one.uid),
            }
            for one in read
        ],
        "looked_up": _look_ups(record),
        "unseen": len(record.reads.objects) - len(read),
        "writes": redact(record, rights).writes,
        "plan": json.dumps(plan, indent=2) if plan else "",
        "hidden": hidden,
        "verdict": "undetermined" if again is None else again.verdict.value,
        "because": ["the log does not hold it any more"] if again is None else because(again, rights),
        "beyond": [] if again is None or not saw_all(record, rights) else list(again.beyond),
    }


def _look_ups(record: DecisionRecord) -> list[str]:
    """How it looked for many at once; without names, which may be of other tenants."""
    reads = record.reads
    return [
        *(
            f"{kind_name(one.part)} {f'by {one.index}' if one.index else 'all of them'}: {len(one.keys)} found"
            for one in reads.indexes
        ),
        *(f"{kind_name(one.part)}: summary {one.summary}: {len(one.items)} items" for one in reads.summaries),
        *(f"{kind_name(one.part)}: {one.count} read, kept as a digest" for one in reads.groups),
        *(f"{kind_name(part)}: not fresh then" for part in reads.stale),
    ]


def _href(kind: str, key: Key, record: DecisionRecord, rights: Rights) -> str:
    """Where it is shown as it was; empty of what has no page, or none for the viewer."""
    known = next((one for one in KNOWN if one.kind == kind), None)
    if known is None or not is_shown(kind, key, rights, record.at):
        return ""
    return address(Ref(known, key.namespace, key.name), record.at)
