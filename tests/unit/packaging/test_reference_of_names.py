"""The pages of keys, variables and commands have everything that the code has."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from aim_cli.__main__ import app
from aim_domain import labels
from aim_packaging import reserved
from aim_packaging.reference import cli_page, labels_page
from aim_packaging.reference import variables_page as variables

ROOT = Path(__file__).parents[3]
ARTIFACTS = ROOT / "services/artifacts/aim_artifacts"
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+|TMPDIR|KUBECONFIG")
_OF_NOBODY_OUTSIDE = {
    "AIM_DOWNLOADER_REPORT",
    "HF_TRANSFER",
    "FULL_OBJECT",
    "HF_HUB_DISABLE_XET",
    "HF_HUB_ENABLE_HF_TRANSFER",
    "CERTIFICATE_VERIFY_FAILED",
    "NO_PROXY",
}
"""Between the program and its child, words of other protocols, and what the page has in a sentence for all programs."""


def words(*paths: Path) -> Iterator[str]:
    """Texts of the code that could be names of variables."""
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _VARIABLE.fullmatch(node.value):
                yield node.value


@pytest.mark.spec("FW-691")
def test_every_key_is_documented() -> None:
    keys = {value for name, value in vars(labels).items() if name.isupper() and _is_key(name, value)}
    assert keys == labels_page.documented().keys()
    page = labels_page.page()
    assert [key for key in keys if f"`{key}`" not in page] == []
    assert "| `aim.eai.amd.com/storage-claim` | AIMArtifact: when others were last evicted for it. | refused |" in page


def _is_key(name: str, value: str) -> bool:
    return (not name.startswith("APP_") and "/" in value and not value.endswith("/")) or value in {
        labels.APP_NAME, labels.APP_COMPONENT, labels.APP_MANAGED_BY, labels.TEMPLATE_CREATED, labels.JOB_NAME,
    }  # fmt: skip


@pytest.mark.spec("FW-691")
def test_what_users_set_is_never_refused() -> None:
    yours = labels_page.page().partition("## Annotations that you set")[2].partition("\n## ")[0]
    reported = set(re.findall(r"^\| `([^`]+)` \|", yours, re.MULTILINE))
    assert labels.ANNOTATION_PAUSED in reported
    assert reported.isdisjoint({*reserved.LABELS, *reserved.ANNOTATIONS})


@pytest.mark.spec("FW-691")
def test_every_variable_of_downloads_is_documented() -> None:
    programs = [*sorted((ARTIFACTS / "downloader").glob("*.py")), ARTIFACTS / "jobs.py"]
    read = {word for word in words(*programs) if not word.startswith("AIM_DEBUG_")} - _OF_NOBODY_OUTSIDE
    # Of the Hub's client, which reads them itself.
    assert {*variables.DOWNLOADS, *variables.DOWNLOADS_FIXED} - {"HF_TOKEN", "HF_ENDPOINT"} == read


@pytest.mark.spec("FW-691")
def test_every_variable_of_predictors_and_discovery_is_documented() -> None:
    # A custom profile brings variables of its own to both.
    custom = set(words(ROOT / "shared/domain/aim_domain/custom_profile.py"))
    serving = set(words(ROOT / "services/serving/aim_serving/containers.py"))
    assert serving | custom <= variables.PREDICTORS.keys()
    discovery = set(words(ROOT / "services/discovery/aim_discovery/templates/job.py"))
    assert (discovery - {"CRITICAL"}) | custom == set(variables.DISCOVERY)


@pytest.mark.spec("FW-691")
def test_every_variable_of_the_command_is_documented() -> None:
    read = set(words(*sorted((ROOT / "deploy/cli/aim_cli").rglob("*.py"))))
    assert {one for one in read if one.startswith("AIM_")} == {*variables.COMMAND} - {"KUBECONFIG"}


@pytest.mark.spec("FW-691")
def test_every_command_and_option_is_documented() -> None:
    page = cli_page.page()
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        section = page.partition(f"## aim {name}\n")[2].partition("\n## ")[0]
        options = {option for parameter in command.params for option in parameter.opts if option.startswith("-")}
        assert {option for option in options - {"--help"} if f"`{option}`" not in section} == set(), name
    assert "| `--nats-url` | Message broker with the event log; optional. |  | `AIM_NATS_URL` |" in page
