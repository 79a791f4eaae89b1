"""What the documentation shows: objects that the definitions take, commands that exist, links that lead somewhere."""

import json
import re
from functools import cache
from pathlib import Path

import pytest
import yaml
from support.shown import DOCS, ROOT, commands, documents, lines, mentioned, name_of, objects, program
from support.shown import PAGES as FOR_USERS
from typer.main import get_command

from aim_cli.__main__ import app
from aim_domain import labels
from aim_packaging.values import Values, Workload
from controller_runtime import JsonObject
from embedded_apiserver import customtypes
from embedded_apiserver.resources import ResourceType
from oci_registry.mirrors import parse_registries

CHART_README = ROOT / "deploy/charts/aim-engine/README.md"
PAGES = sorted(
    [ROOT / "README.md", ROOT / "UPGRADING.md", CHART_README, *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
)
GROUP = "aim.eai.amd.com/"
_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


CHART_FILE = ROOT / "deploy/charts/aim-engine/values.yaml"
CHART_VALUES = yaml.safe_load(CHART_FILE.read_text(encoding="utf-8"))


def merged(base: JsonObject, over: JsonObject) -> JsonObject:
    """As helm lays the values of a user over those of the chart, before it judges them."""
    return {
        **base,
        **{
            name: merged(base[name], value) if isinstance(value, dict) and isinstance(base.get(name), dict) else value
            for name, value in over.items()
        },
    }


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@cache
def _types() -> dict[tuple[str, str], ResourceType]:
    definitions = (
        yaml.safe_load(path.read_text("utf-8")) for path in sorted((ROOT / "deploy" / "crds").glob("*.yaml"))
    )
    return {(one.version, one.kind): one for crd in definitions for one in customtypes.types_of(crd)}


def _objects() -> list[tuple[str, JsonObject]]:
    found = []
    for page in PAGES:
        for language, block in _BLOCK.findall(_text(page)):
            if language != "yaml":
                continue
            for number, obj in enumerate(yaml.safe_load_all(block)):
                if isinstance(obj, dict) and str(obj.get("apiVersion", "")).startswith(GROUP):
                    found.append((f"{name_of(page)}:{obj['kind']}-{obj['metadata'].get('name', number)}", obj))
    return found


@pytest.mark.parametrize("obj", [pytest.param(obj, id=where) for where, obj in _objects()])
def test_shown_objects_are_taken_as_they_are(obj: JsonObject) -> None:
    known = _types()[obj["apiVersion"].removeprefix(GROUP), obj["kind"]]
    assert known.schema is not None
    assert known.rules is not None
    assert known.schema.prune(obj) == [], "fields that do not exist"
    assert known.schema.validate(obj) == []
    assert known.rules.validate(obj, None) == []


def _anchors(page: Path) -> set[str]:
    """Of the headings, as GitHub makes them."""
    without_code = _BLOCK.sub("", _text(page))
    headings = (re.sub(r"[^\w\- ]", "", one.replace("`", "").lower()) for one in _HEADING.findall(without_code))
    return {one.replace(" ", "-") for one in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in _LINK.findall(_CODE.sub("", _BLOCK.sub("", _text(page)))):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        is_missing = not target.exists() or (anchor and target.suffix == ".md" and anchor not in _anchors(target))
        if is_missing:
            broken.append(link)
    assert broken == []


@pytest.mark.spec("FW-694")
def test_pages_agree_about_an_object_that_several_show() -> None:
    """Applied in any order they leave the same: what a page adds to the object of another one is a patch."""
    shown: dict[tuple[str, str, str], dict[str, JsonObject]] = {}
    for page in FOR_USERS:
        for one in objects(page):
            metadata = one["metadata"]
            known = shown.setdefault((one["kind"], metadata.get("namespace", ""), metadata["name"]), {})
            known.setdefault(json.dumps(one.get("spec"), sort_keys=True), {name_of(page): one})
    assert {named: list(specs) for named, specs in shown.items() if len(specs) > 1} == {}


EXAMPLES = sorted((ROOT / "examples").glob("*/README.md"))


@pytest.mark.parametrize("page", [one for one in EXAMPLES if (one.parent / "values.yaml").exists()], ids=name_of)
def test_values_of_examples_are_values_of_the_chart(page: Path) -> None:
    values = yaml.safe_load((page.parent / "values.yaml").read_text("utf-8"))
    Values.model_validate(merged(CHART_VALUES, values))
    parse_registries(yaml.safe_dump({"registries": values.get("registries", {})}))


def test_the_list_of_examples_has_each() -> None:
    listed = re.findall(r"\]\(([\w-]+)/README\.md\)", _text(ROOT / "examples" / "README.md"))
    assert sorted(listed) == [one.parent.name for one in EXAMPLES]


_FOR_CONTRIBUTORS = ("architecture.md", "glossary.md", "protocol.md", "adr")
_REQUIREMENT = re.compile(r"\b[A-Z]{2}-\d{2,}\b")


@pytest.mark.parametrize("page", [*FOR_USERS, *sorted((DOCS / "reference").rglob("*.md")), CHART_FILE], ids=name_of)
def test_no_page_for_users_cites_requirements(page: Path) -> None:
    if any(part in _FOR_CONTRIBUTORS for part in page.parts):
        return
    assert [line for line in _text(page).splitlines() if _REQUIREMENT.search(line)] == []


@pytest.mark.parametrize("page", FOR_USERS, ids=name_of)
def test_no_page_deletes_all_objects_of_a_kind(page: Path) -> None:
    assert [line for line in commands(page) if " delete " in line and re.search(r"(^| )(--all|-A)\b", line)] == []


_COMMAND = re.compile(r"^(?:\w+=\S+ )*make ([a-z][a-z0-9-]*)", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_shown_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    shown = {one for language, block in _BLOCK.findall(_text(page)) if not language for one in _COMMAND.findall(block)}
    assert shown - targets == set()


_KEY = re.compile(rf"(?<![\w.-]){re.escape(GROUP)}([a-z][\w.-]*\w)")


@pytest.mark.spec("FW-691")
@pytest.mark.parametrize("page", [page for page in PAGES if "spec" not in page.parts], ids=name_of)
def test_keys_that_a_page_names_exist(page: Path) -> None:
    known = {value.removeprefix(GROUP) for value in vars(labels).values() if str(value).startswith(GROUP)}
    assert set(_KEY.findall(_text(page))) - known - {"v1alpha1", "v1alpha2"} == set()


@pytest.mark.spec("FW-694")
@pytest.mark.parametrize("page", FOR_USERS, ids=name_of)
def test_shown_values_are_values_of_the_chart(page: Path) -> None:
    for values in documents(page):
        if "apiVersion" not in values:
            Values.model_validate(merged(CHART_VALUES, values))
            for overrides in values.get("services", {}).values():
                Workload.model_validate(overrides)
            parse_registries(yaml.safe_dump({"registries": values.get("registries", {})}))


@pytest.mark.spec("FW-693")
@pytest.mark.parametrize("page", FOR_USERS, ids=name_of)
def test_what_stands_among_commands_is_a_command(page: Path) -> None:
    assert [line for line in lines(page) if not program(line) and not line.startswith("export ")] == []


@pytest.mark.spec("FW-693", "FW-602", "FW-622")
@pytest.mark.parametrize("page", FOR_USERS, ids=name_of)
def test_options_of_aim_exist(page: Path) -> None:
    known = get_command(app).commands  # type: ignore[attr-defined]
    for line in (*commands(page), *mentioned(page)):
        name, *words = line.split()[1:]
        if program(line).rpartition("/")[2] == "aim" and not name.startswith("-"):
            options = {option for parameter in known[name].params for option in parameter.opts}
            assert {word for word in words if word.startswith("-")} <= {*options, "-"}, line
