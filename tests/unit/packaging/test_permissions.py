"""Roles follow from declarations, and what is declared is what FW-300 and FW-301 allow."""

import re
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest
import yaml

from aim_domain.parts import ARTIFACTS, HTTP_ROUTES, SERVICES, TEMPLATES
from aim_packaging.chart import outdated, page, permission_table, write
from aim_packaging.services import definitions
from aim_packaging.values import Values
from controller_runtime import (
    ApiVerb,
    Child,
    Delete,
    Patch,
    Plan,
    Reconciler,
    ServiceDefinition,
    UndeclaredWriteError,
    Verb,
    Where,
    WriteMode,
    direct_permissions,
    permissions,
    writes,
)
from controller_runtime.reconcile.access import require_declared

DEFINITIONS: Final = {one.name: one for one in definitions()}
EVERYBODY: Final = "events: create patch, namespaces: get, leases: create get update"

SPECIFICATION: Final = (Path(__file__).parents[3] / "docs/spec/README.md").read_text("utf-8")
ROWS: Final = SPECIFICATION.partition("### 4.1 ")[2].partition("\n## ")[0]
ALLOWED: Final = {
    name: ", ".join(re.findall(r"`([^`]+)`", row))
    for name, row in re.findall(r"^\| ([a-z-]+) \| (`[^|]+) \|", ROWS, re.MULTILINE)
}
"""What a service watches, writes and reads on demand (FW-301)."""


def table(text: str) -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for entry in text.split(","):
        resource, verbs = entry.split(":")
        found[resource.strip()] |= set(verbs.split())
    return found


@pytest.mark.spec("FW-300", "FW-301", "FW-306", "AR-803")
@pytest.mark.parametrize("service", DEFINITIONS)
def test_a_role_exceeds_its_row_nowhere_and_lacks_nothing_of_what_it_writes(service: str) -> None:
    allowed = table(f"{ALLOWED[service]}, {EVERYBODY}")
    found = defaultdict[str, set[str]](set)
    for one in permissions(DEFINITIONS[service]):
        found[one.resource] |= {verb.value for verb in one.verbs}
    beyond = {resource: verbs - allowed[resource] for resource, verbs in found.items() if verbs - allowed[resource]}
    assert not beyond
    changing = {"create", "patch", "delete", "update", "bind"}
    lacking = {resource: verbs & changing - found[resource] for resource, verbs in allowed.items()}
    assert not any(lacking.values()), lacking


@pytest.mark.spec("FW-301", "FW-345")
def test_secrets_are_only_ever_read_by_name() -> None:
    for definition in DEFINITIONS.values():
        for one in (*permissions(definition), *direct_permissions(definition)):
            if one.resource.startswith("secrets"):
                assert one.verbs == {ApiVerb.GET}


@pytest.mark.spec("FW-301", "FW-344")
def test_model_sync_reads_secrets_of_the_operator_namespace_only() -> None:
    found = [one for one in permissions(DEFINITIONS["model-sync"]) if one.resource == "secrets"]
    assert [one.where for one in found] == [Where.SYSTEM_NAMESPACE]


@pytest.mark.spec("FW-301", "FW-281", "FW-890")
def test_a_service_has_its_own_leases_and_no_others() -> None:
    for definition in DEFINITIONS.values():
        leases = [one for one in permissions(definition) if one.resource == "leases"]
        named = [one for one in leases if one.names]
        of_shards = {f"aim-{definition.name}-{index}" for index in range(1, 16)} if definition.divisible else set()
        assert {name for one in named for name in one.names} == {f"aim-{definition.name}", *of_shards}
        # A create cannot be bound to a name.
        assert all(one.verbs == {ApiVerb.CREATE} for one in leases if not one.names)
        assert {one.where for one in leases} == {Where.SYSTEM_NAMESPACE}


@pytest.mark.spec("FW-303")
def test_only_the_role_of_the_status_updater_may_be_bound() -> None:
    bound = [one for d in DEFINITIONS.values() for one in permissions(d) if ApiVerb.BIND in one.verbs]
    assert [one.names for one in bound] == [{"aim-engine-artifact-status-updater"}]


@pytest.mark.spec("FW-404")
@pytest.mark.parametrize("service", DEFINITIONS)
def test_direct_watch_adds_reading_of_what_is_consumed_and_no_secrets(service: str) -> None:
    definition = DEFINITIONS[service]
    verbs = {verb for one in direct_permissions(definition) for verb in one.verbs}
    assert verbs <= {ApiVerb.LIST, ApiVerb.WATCH}
    granted = {one.resource for one in (*permissions(definition), *direct_permissions(definition))}
    assert {part.kind.plural for part in definition.consumes if part.name != "facts"} <= granted


@pytest.mark.spec("FW-534")
def test_every_kind_of_effect_says_what_it_does() -> None:
    silent = [one.name for definition in DEFINITIONS.values() for one in definition.effects if not one.access]
    assert silent == ["rollout-check", "adapter-load"], "Prometheus and engines alone are asked"


@pytest.mark.spec("FW-534")
def test_a_plan_may_write_what_is_declared_and_nothing_else() -> None:
    declared = (writes(HTTP_ROUTES, Verb.APPLY), writes(ARTIFACTS, Verb.PATCH), writes(TEMPLATES, Verb.DELETE))
    child = Child(HTTP_ROUTES, {"metadata": {"name": "r", "namespace": "n"}})
    patch = Patch(ARTIFACTS, "n", "a", "1", {}, "why")
    delete = Delete(TEMPLATES, "n", "t", "u", "why")
    require_declared(Plan((patch,), (delete,), (child,)), declared)
    created = Child(HTTP_ROUTES, child.body, mode=WriteMode.CREATE)
    for plan, what in (
        (Plan(children=(created,)), "create an object of httproutes"),
        (Plan(patches=(Patch(TEMPLATES, "n", "t", "1", {}, "why"),)), "patch an object of aimservicetemplates"),
        (Plan(deletes=(Delete(ARTIFACTS, "n", "a", "u", "why"),)), "delete an object of aimartifacts"),
    ):
        with pytest.raises(UndeclaredWriteError, match=what):
            require_declared(plan, declared)


@pytest.mark.spec("FW-180", "FW-301")
def test_a_finalizer_brings_the_patch_that_it_takes() -> None:
    reconciler = Reconciler("c", SERVICES, lambda *_: Plan(), finalizer="f/f", finalize=lambda *_: None)
    definition = ServiceDefinition("s", (), (SERVICES,), reconcilers=(reconciler,))
    require_declared(Plan(patches=(Patch(SERVICES, "n", "a", "1", {}, "why"),)), definition.declared_writes)
    found = {one.resource: one.verbs for one in permissions(definition)}
    assert ApiVerb.PATCH in found["aimservices"]


@pytest.mark.spec("FW-301")
def test_what_nobody_of_ours_writes_has_no_status_of_ours() -> None:
    resources = {one.resource for one in permissions(DEFINITIONS["discovery"])}
    assert "nodes/status" not in resources


@pytest.mark.spec("FW-534")
def test_the_chart_is_up_to_date_or_says_which_file_is_not(tmp_path: Path) -> None:
    assert {path.name for path in outdated(tmp_path)} == {
        "services.txt",
        "divisible.txt",
        "switches.json",
        "permissions.yaml",
        "PERMISSIONS.md",
        "Chart.yaml",
        "README.md",
        "values.yaml",
        "values.schema.json",
        "rules.yaml",
        "reserved.yaml",
        "controllers.json",
        "events.json",
        "models.json",
    }
    write(tmp_path)
    assert not outdated(tmp_path)
    path = tmp_path / "aim-engine/files/permissions.yaml"
    assert yaml.safe_load(path.read_text()) == permission_table()
    path.write_text("{}")
    assert outdated(tmp_path) == [path]


@pytest.mark.spec("FW-534")
def test_the_page_for_people_tells_every_rule() -> None:
    text = page(permission_table())
    sections = {name: text.partition(f"## {name}\n")[2].partition("\n## ")[0] for name in DEFINITIONS}
    assert "| cluster | core | pods/log, secrets, serviceaccounts |  | get |" in sections["discovery"]
    assert "| namespace | core | secrets |  | get |" in sections["model-sync"]
    assert "| cluster | core | namespaces | kube-system | get |" in sections["routing"]
    services = permission_table()["services"].values()
    rules = sum(len(own[reach]) for own in services for reach in ("cluster", "system", "direct"))
    rules += sum(len(permission_table()[other]) for other in ("console", "check", "downloader"))
    rows = [line for line in text.splitlines() if line.startswith(("| cluster", "| namespace", "| direct"))]
    assert len(rows) == rules


@pytest.mark.spec("FW-303", "AR-270")
def test_download_pods_patch_the_status_of_artifacts_and_nothing_else() -> None:
    [rule] = permission_table()["downloader"]
    assert rule == {"apiGroups": ["aim.eai.amd.com"], "resources": ["aimartifacts/status"], "verbs": ["patch"]}


@pytest.mark.spec("FW-683")
def test_the_console_only_asks_about_its_viewers() -> None:
    rules = permission_table()["console"]
    assert [(*one["apiGroups"], *one["resources"], *one["verbs"]) for one in rules] == [
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
    ]
    assert "| cluster | authentication.k8s.io | tokenreviews |  | create |" in page(permission_table())


@pytest.mark.spec("FW-535", "FW-683")
def test_the_reading_user_of_command_and_console_writes_nothing_on_the_broker() -> None:
    allowed = permission_table()["reader"]["publish"]["allow"]
    assert all(subject.startswith("$JS.API.") for subject in allowed)
    changes = ("STREAM.CREATE", "STREAM.UPDATE", "STREAM.MSG.DELETE", "STREAM.PURGE", "STREAM.DELETE")
    assert [subject for subject in allowed if subject.removeprefix("$JS.API.").startswith(changes)] == []


@pytest.mark.spec("FW-683")
def test_the_console_is_one_pod_that_is_off_and_closed_unless_values_say_otherwise() -> None:
    values = Values()
    assert values.model_dump()["services"]["console"]["replicas"] == 1, "sessions are in the memory of one"
    assert (values.console.enabled, values.console.namespaces) == (False, [])


@pytest.mark.spec("FW-535")
def test_only_the_publisher_of_a_part_may_write_it_on_the_broker() -> None:
    writers = defaultdict(list)
    for name, service in permission_table()["services"].items():
        for subject in service["nats"]["publish"]["allow"]:
            if not subject.startswith("$JS."):
                writers[subject].append(name)
        assert service["nats"]["subscribe"]["allow"] == [f"_INBOX.aim-{name}.>"]
    assert all(len(names) == 1 for names in writers.values()), writers
    assert "aim.state.>" not in writers
