"""``aim migrate``: read, map, compare, write, report (RC-142, RC-147)."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, final

from rich.console import Console

from aim_cli.cluster.client import cluster
from aim_cli.errors import UnreachableError
from aim_cli.migration.findings import FAILURES, Finding, Weight
from aim_cli.migration.mapping import Migration, New, migrate
from aim_cli.migration.reading import Reading, read_cluster, read_files
from aim_cli.migration.settling import Deed, Step, as_yaml, difference, settle
from aim_cli.output import safe
from aim_domain import kinds
from controller_runtime import ApiError, JsonObject, Kind, KubeClient

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
            _tell_step(step, out, with_difference=wish.dry_run)
    return _report(findings, reading, deeds, out, dry_run=wish.dry_run)


async def _templates(kube: KubeClient, reading: Reading) -> set[tuple[str, str]]:
    """Today's templates, if an old cache has to be told the scope of its own."""
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


def _tell_step(step: Step, out: Console, *, with_difference: bool) -> None:
    origins = ", ".join(map(str, step.new.origins))
    out.print(f"{safe(str(step.new))} [{_STYLES[step.deed]}]{step.deed.value}[/], from {safe(origins)}")
    if with_difference:
        for line in difference(step).splitlines():
            out.print(f"  {safe(line)}", style={"+": "green", "-": "red"}.get(line[0], "dim"))


def _print(migration: Migration, reading: Reading, out: Console, errors: Console) -> int:
    if migration.objects:
        # As it is: a terminal's width and markup must not change a document.
        out.file.write(as_yaml(*(new.body for new in migration.objects)))
    return _tell_findings([*reading.findings, *migration.findings], errors)


def _report(findings: list[Finding], reading: Reading, deeds: Counter[Deed], out: Console, *, dry_run: bool) -> int:
    code = _tell_findings(findings, out)
    done = ", ".join(f"{deeds[deed]} {deed.value}" for deed in Deed)
    refused = sum(finding.weight is Weight.REFUSED for finding in findings)
    out.print(f"{len(reading.olds)} found: {done}, {refused} refused{'; nothing was written' if dry_run else ''}")
    if reading.others:
        passed = ", ".join(f"{count} {kind}" for kind, count in sorted(reading.others.items()))
        out.print(f"Passed over, as of other groups: {safe(passed)}", style="dim")
    return code


def _tell_findings(findings: Iterable[Finding], out: Console) -> int:
    told = list(dict.fromkeys(findings))
    for weight in Weight:
        section = [finding for finding in told if finding.weight is weight]
        if section:
            out.print(f"\n{weight.value}:", style="bold red" if weight in FAILURES else "bold")
        for finding in section:
            where = f"{finding.about} {finding.field}".strip()
            out.print(f"  {safe(where)}: {safe(finding.reason)}")
    if told:
        out.print()
    return UNMAPPED if any(finding.weight in FAILURES for finding in told) else 0
