"""What has to be written, given what is there: nothing that exists is overwritten (RC-126, RC-143)."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, final

import yaml

from aim_cli.migration.adding import completed, differences
from aim_cli.migration.findings import Finding, Weight
from aim_cli.migration.kinds import CONFIG_KINDS
from aim_cli.migration.mapping import New
from aim_domain import labels
from controller_runtime import JsonObject

_SEPARATOR: Final = ", "


class Deed(Enum):
    """What happens to an object; the value is how it is told."""

    CREATE = "created"
    COMPLETE = "completed"
    KEEP = "unchanged"


@final
@dataclass(frozen=True, slots=True)
class Step:
    """One object, what happens to it, and what is told about it.

    Attributes:
        there: the object as it is; None when there is none.
        body: the object as it shall be.
    """

    deed: Deed
    new: New
    there: JsonObject | None
    body: JsonObject
    findings: tuple[Finding, ...] = ()

    @property
    def patch(self) -> JsonObject:
        """What completes the existing object, as a merge patch."""
        annotations = self.body["metadata"]["annotations"]
        origin = {labels.ANNOTATION_MIGRATED_FROM: annotations[labels.ANNOTATION_MIGRATED_FROM]}
        return {"metadata": {"annotations": origin}, "spec": self.body["spec"]}


def settle(new: New, there: JsonObject | None) -> Step:
    """Create what is missing, complete configs, and leave everything else as it is."""
    if there is None:
        return Step(Deed.CREATE, new, None, new.body)
    if new.kind.kind not in CONFIG_KINDS:
        paths = differences(there.get("spec") or {}, new.body["spec"], "spec")
        return Step(Deed.KEEP, new, there, there, _conflicts(new, paths))
    body, paths = completed(there, new.body)
    if body["spec"] == (there.get("spec") or {}):
        return Step(Deed.KEEP, new, there, there, _conflicts(new, paths))
    return Step(Deed.COMPLETE, new, there, _signed(body, new), _conflicts(new, paths))


def _conflicts(new: New, paths: Sequence[str]) -> tuple[Finding, ...]:
    origins = _SEPARATOR.join(map(str, new.origins))
    return tuple(
        Finding(Weight.CONFLICT, str(new), path, f"{origins} says something else; change it yourself if that is right")
        for path in paths
    )


def _signed(body: JsonObject, new: New) -> JsonObject:
    metadata = body["metadata"]
    annotations = metadata.get("annotations") or {}
    former = str(annotations.get(labels.ANNOTATION_MIGRATED_FROM) or "")
    names = dict.fromkeys([*filter(None, former.split(_SEPARATOR)), *(origin.text for origin in new.origins)])
    signed = {**annotations, labels.ANNOTATION_MIGRATED_FROM: _SEPARATOR.join(names)}
    return {**body, "metadata": {**metadata, "annotations": signed}}


def difference(step: Step) -> str:
    """The step as a unified diff of YAML; empty when nothing changes."""
    before = as_yaml(_told(step.there)) if step.there is not None else ""
    after = as_yaml(_told(step.body))
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        fromfile=f"{step.new} (as it is)" if before else "(none)",
        tofile=str(step.new),
    )
    return "".join(lines)


def _told(obj: JsonObject) -> JsonObject:
    """Without what the API server adds on its own."""
    metadata = obj["metadata"]
    shown = {name: metadata[name] for name in ("name", "namespace", "labels", "annotations") if metadata.get(name)}
    return {
        **{name: obj.get(name) for name in ("apiVersion", "kind")},
        "metadata": shown,
        "spec": obj.get("spec") or {},
    }


def as_yaml(*objects: JsonObject) -> str:
    """The objects as one stream of documents."""
    return yaml.safe_dump_all(objects, sort_keys=False, allow_unicode=True, explicit_start=len(objects) > 1, width=110)
