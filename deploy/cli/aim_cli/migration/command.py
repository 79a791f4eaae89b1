"""``aim migrate``: read, map, compare, write, report (RC-142, RC-147)."""

import difflib
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, final

import yaml
from rich.console import Console

from aim_cli.cluster.client import cluster
from aim_cli.errors import UnreachableError
from aim_cli.files import documents
from aim_cli.migration.draft import (
    CONFIG_KINDS,
    FAILURES,
    OLD_GROUPS,
    OLD_KINDS,
    Finding,
    OldKind,
    Origin,
    Weight,
    completed,
    differences,
    old_kind,
)
from aim_cli.migration.mapping import Migration, New, Old, migrate
from aim_cli.output import safe
from aim_domain import kinds, labels
from controller_runtime import ApiError, JsonObject, Kind, KubeClient

_SEPARATOR: Final = ", "
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


_LIKE_A_NUMBER: Final = re.compile(r"[-+.]?[0-9]")


class Deed(Enum):
    """What happens to an object; the value is the word of the report."""

    CREATE = "created"
    COMPLETE = "completed"
    KEEP = "unchanged"


@final
@dataclass(frozen=True, slots=True)
class Step:
    """One object, what happens to it, and what is reported about it.

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
    before = as_yaml(_plain(step.there)) if step.there is not None else ""
    after = as_yaml(_plain(step.body))
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        fromfile=f"{step.new} (as it is)" if before else "(none)",
        tofile=str(step.new),
    )
    return "".join(lines)


def _plain(obj: JsonObject) -> JsonObject:
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


_PAGE: Final = 500


@final
@dataclass(slots=True)
class Reading:
    """What was found.

    Attributes:
        olds: objects of the old kinds.
        findings: what cannot be mapped because it is no such object.
        others: how many objects of other kinds were passed over.
    """

    olds: list[Old] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)


def read_files(names: Iterable[str], namespace: str) -> Reading:
    """Read documents from files, folders (with what is below them) and ``-``.

    Args:
        namespace: of namespaced objects that name none.

    Raises:
        UnreadableError: a file does not exist or is no YAML.
    """
    reading = Reading()
    for name in names:
        for _, document in documents(name):
            _sort(document, namespace, reading)
    return reading


async def read_cluster(kube: KubeClient) -> Reading:
    """Read all objects of the old kinds; kinds that the cluster does not know have no objects."""
    reading = Reading()
    for kind in OLD_KINDS:
        async for body in _list_all(kube, kind):
            reading.olds.append(Old(kind, body))
    return reading


async def _list_all(kube: KubeClient, kind: OldKind) -> AsyncIterator[JsonObject]:
    token = ""
    while True:
        try:
            page = await kube.list(kind, limit=_PAGE, continue_token=token)
        except ApiError as error:
            if error.is_not_found:
                return
            raise
        for body in page.items:
            yield body
        token = page.continue_token
        if not token:
            return


def _sort(document: object, namespace: str, reading: Reading) -> None:
    if document is None:
        return
    if not isinstance(document, dict):
        reading.others["documents that are no objects"] += 1
        return
    kind = str(document.get("kind") or "documents without a kind")
    items = document.get("items")
    if kind.endswith("List") and isinstance(items, list):
        for item in items:
            _sort(item, namespace, reading)
        return
    group = str(document.get("apiVersion") or "").partition("/")[0]
    known = old_kind(group, kind)
    if known is not None:
        reading.olds.append(Old(known, _placed(document, known, namespace)))
    elif group in OLD_GROUPS:
        metadata = document.get("metadata")
        name = str(metadata.get("name") or "") if isinstance(metadata, dict) else ""
        origin = Origin(group, kind, "", name)
        reading.findings.append(Finding(Weight.LOST, str(origin), "kind", f"{group} has no kind {kind} that is known"))
    else:
        reading.others[kind] += 1


def _placed(body: JsonObject, kind: OldKind, namespace: str) -> JsonObject:
    metadata = body.get("metadata")
    if not kind.namespaced or not isinstance(metadata, dict) or metadata.get("namespace"):
        return body
    return {**body, "metadata": {**metadata, "namespace": namespace}}


MANAGER: Final = "aim-migrate"
UNMAPPED: Final = 1
_GOING: Final = "is being deleted, and what is written to it would go with it; migrate again when it is gone"
_STYLES: Final = {Deed.CREATE: "green", Deed.COMPLETE: "cyan", Deed.KEEP: "dim"}


@final
@dataclass(frozen=True, slots=True)
class Wish:
    """What the command was asked for.

    Attributes:
        files: files, folders and ``-``; without any, the cluster is read.
        namespace: of namespaced objects in files that name none.
        dry_run: compare and let the API server check, but write nothing.
        print_only: print the objects; neither compare nor write.
    """

    files: tuple[str, ...]
    namespace: str
    kubeconfig: str | None
    context: str | None
    dry_run: bool
    print_only: bool


async def run(wish: Wish, out: Console, errors: Console) -> int:
    """Do it; the exit code, 0 or 1.

    Raises:
        UnreadableError: a file is missing or is no YAML.
        UnreachableError: the cluster cannot be asked.
    """
    if wish.print_only and wish.files:
        reading = read_files(wish.files, wish.namespace)
        return _print(migrate(reading.olds), reading, out, errors)
    async with cluster(wish.kubeconfig, wish.context) as kube:
        reading = read_files(wish.files, wish.namespace) if wish.files else await read_cluster(kube)
        migration = migrate(reading.olds, await _templates(kube, reading))
        if wish.print_only:
            return _print(migration, reading, out, errors)
        await _expect_definitions(kube, migration.objects)
        findings = [*reading.findings, *migration.findings]
        deeds: Counter[Deed] = Counter()
        for new in migration.objects:
            there = await _there(kube, new)
            if there is not None and there["metadata"].get("deletionTimestamp"):
                findings.append(Finding(Weight.REFUSED, str(new), "", _GOING))
                continue
            step = settle(new, there)
            findings += step.findings
            try:
                await _write(kube, step, dry_run=wish.dry_run)
            except ApiError as error:
                findings.append(Finding(Weight.REFUSED, str(new), "", error.message))
                continue
            deeds[step.deed] += 1
            _print_step(step, out, with_difference=wish.dry_run)
    return _report(findings, reading, deeds, out, dry_run=wish.dry_run)


async def _templates(kube: KubeClient, reading: Reading) -> set[tuple[str, str]]:
    """Today's templates, if an old cache needs the scope of its own."""
    if not any(old.kind.today is kinds.AIM_TEMPLATE_CACHE for old in reading.olds):
        return set()
    found: set[tuple[str, str]] = set()
    for kind in (kinds.AIM_SERVICE_TEMPLATE, kinds.AIM_CLUSTER_SERVICE_TEMPLATE):
        page = await kube.list_in_form(kind, lambda obj: obj["metadata"])
        found |= {(metadata.get("namespace", ""), metadata["name"]) for metadata in page.items}
    return found


async def _expect_definitions(kube: KubeClient, objects: Iterable[New]) -> None:
    """A missing definition and a missing object have the same answer, so the kinds are asked for first."""
    missing: list[Kind[Any]] = []
    for kind in dict.fromkeys(new.kind for new in objects):
        try:
            await kube.list(kind, limit=1)
        except ApiError as error:
            if not error.is_not_found:
                raise
            missing.append(kind)
    if missing:
        names = ", ".join(map(str, missing))
        raise UnreachableError(f"the cluster does not know {names}; kubectl apply --server-side -k deploy/crds")


async def _there(kube: KubeClient, new: New) -> JsonObject | None:
    try:
        return await kube.get(new.kind, new.name, new.namespace)
    except ApiError as error:
        if error.is_not_found:
            return None
        raise


async def _write(kube: KubeClient, step: Step, *, dry_run: bool) -> None:
    if step.deed is Deed.CREATE:
        await kube.create(step.new.kind, step.body, MANAGER, dry_run=dry_run)
    elif step.deed is Deed.COMPLETE and step.there is not None:
        await kube.merge_patch(
            step.new.kind,
            step.new.name,
            step.new.namespace,
            step.patch,
            resource_version=step.there["metadata"]["resourceVersion"],
            field_manager=MANAGER,
            dry_run=dry_run,
        )


def _print_step(step: Step, out: Console, *, with_difference: bool) -> None:
    origins = ", ".join(map(str, step.new.origins))
    out.print(f"{safe(str(step.new))} [{_STYLES[step.deed]}]{step.deed.value}[/], from {safe(origins)}")
    if with_difference:
        for line in difference(step).splitlines():
            out.print(f"  {safe(line)}", style={"+": "green", "-": "red"}.get(line[0], "dim"))


def _print(migration: Migration, reading: Reading, out: Console, errors: Console) -> int:
    if migration.objects:
        # As it is: a terminal's width and markup must not change a document.
        out.file.write(as_yaml(*(new.body for new in migration.objects)))
    return _print_findings([*reading.findings, *migration.findings], errors)


def _report(findings: list[Finding], reading: Reading, deeds: Counter[Deed], out: Console, *, dry_run: bool) -> int:
    code = _print_findings(findings, out)
    done = ", ".join(f"{deeds[deed]} {deed.value}" for deed in Deed)
    refused = sum(finding.weight is Weight.REFUSED for finding in findings)
    out.print(f"{len(reading.olds)} found: {done}, {refused} refused{'; nothing was written' if dry_run else ''}")
    if reading.others:
        passed = ", ".join(f"{count} {kind}" for kind, count in sorted(reading.others.items()))
        out.print(f"Passed over, as of other groups: {safe(passed)}", style="dim")
    return code


def _print_findings(findings: Iterable[Finding], out: Console) -> int:
    reported = list(dict.fromkeys(findings))
    for weight in Weight:
        section = [finding for finding in reported if finding.weight is weight]
        if section:
            out.print(f"\n{weight.value}:", style="bold red" if weight in FAILURES else "bold")
        for finding in section:
            where = f"{finding.about} {finding.field}".strip()
            out.print(f"  {safe(where)}: {safe(finding.reason)}")
    if reported:
        out.print()
    return UNMAPPED if any(finding.weight in FAILURES for finding in reported) else 0
