"""What has to be written, given what is there: nothing that exists is overwritten (RC-126, RC-143)."""

import difflib
import re
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
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


_LIKE_A_NUMBER: Final = re.compile(r"[-+.]?[0-9]")


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
    shown = {name: metadata[name] for name in ("name", "namespace", "labels") if metadata.get(name)}
    # It repeats the whole object, with whatever was written into its variables.
    annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key != _LAST_APPLIED}
    return {
        **{name: obj.get(name) for name in ("apiVersion", "kind")},
        "metadata": {**shown, **({"annotations": annotations} if annotations else {})},
        "spec": _without_values(obj.get("spec") or {}),
    }


def _without_values(value: object) -> object:
    """Literal values of variables are hidden: many are credentials, and what is printed is kept in logs."""
    if isinstance(value, list):
        return [_without_values(item) for item in value]
    if not isinstance(value, dict):
        return value
    shown = {name: _variables(below) if name == "env" else _without_values(below) for name, below in value.items()}
    return dict(shown)


def _variables(env: object) -> object:
    if not isinstance(env, list):
        return env
    return [{**one, "value": "(hidden)"} if isinstance(one, dict) and "value" in one else one for one in env]


def as_yaml(*objects: JsonObject) -> str:
    """The objects as one stream of documents."""
    return yaml.dump_all(
        objects, Dumper=_Dumper, sort_keys=False, allow_unicode=True, explicit_start=len(objects) > 1, width=110
    )


class _Dumper(yaml.SafeDumper):
    """Quotes also what only other readers of YAML take for a number, such as 1e3 and 08."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "'" if _LIKE_A_NUMBER.match(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
