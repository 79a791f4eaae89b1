"""Rules of framework.md about all services together."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest
from support.declarations import definitions
from support.whole_platform import passes_after, variants

from aim_domain import AimSettings, labels
from aim_domain.kinds import OWN_KINDS
from controller_runtime import Category, ClassifiedError, Component, dumps
from controller_runtime.reconcile.conditions import ParentCondition

ROOT: Final = Path(__file__).parents[2]
FRAMEWORK: Final = (ROOT / "docs/spec/framework.md").read_text(encoding="utf-8")
SECRET: Final = "hf_a1B2c3D4e5F6"


@pytest.mark.spec("FW-040", "FW-041")
def test_what_an_error_says() -> None:
    named = {category.name: category.value for category in Category}
    assert named == {
        "INFRASTRUCTURE": "Infrastructure",
        "AUTH": "Auth",
        "MISSING_DOWNSTREAM": "MissingDependency",
        "MISSING_UPSTREAM": "MissingReference",
        "INVALID_SPEC": "InvalidSpec",
        "RESOURCE_EXHAUSTION": "ResourceExhaustion",
        "UNKNOWN": "Unknown",
    }
    assert str(ClassifiedError(Category.AUTH, "Unauthorized", "no token")) == "Unauthorized: no token"
    assert str(ClassifiedError(Category.AUTH, "Unauthorized", "")) == "Unauthorized"


@pytest.mark.spec("FW-083", "FW-082")
def test_no_component_and_no_parent_condition_says_that_something_is_wrong_by_being_true() -> None:
    types = {Component(name).condition_type for kind in OWN_KINDS for name in kind.model.components}
    assert {str(one) for one in ParentCondition} == {"AuthValid", "ConfigValid", "DependenciesReachable", "Ready"}
    assert types.isdisjoint({"Progressing", "Degraded", "Failed"})
    assert all(one.endswith("Ready") for one in types)


@pytest.mark.spec("FW-098", "FW-099", "FW-017")
def test_of_the_timing_constants_these_can_be_set() -> None:
    table = FRAMEWORK.partition("**FW-098**")[2].partition("**FW-099**")[0]
    assert set(re.findall(r"AIM_[A-Z_]+", table)) == {"AIM_BACKOFF_INITIAL", "AIM_BACKOFF_MAX", "AIM_RESYNC_INTERVAL"}
    settings = AimSettings()
    assert (settings.backoff_initial, settings.backoff_max, settings.resync_interval) == (0.2, 1000, 600)


def texts() -> frozenset[str]:
    """Every text in the source of the services and of what they share."""
    files = [one for folder in ("services", "shared") for one in (ROOT / folder).rglob("*.py")]
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    return frozenset(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


@pytest.mark.spec("FW-127")
def test_reasons_that_users_rely_on_keep_their_words() -> None:
    requirement = FRAMEWORK.partition("**FW-127** ")[2].partition("\n")[0]
    reasons = set(re.findall(r"`([A-Z][A-Za-z]+)`", requirement))
    assert len(reasons) > 40
    assert reasons - texts() == set()


@pytest.mark.spec("FW-189", "FW-180")
def test_services_and_caches_have_a_finalizer_and_nothing_else() -> None:
    finalizers = {one.controller: one.finalizer for service in definitions() for one in service.reconcilers}
    assert {name: one for name, one in finalizers.items() if one} == {
        "service": labels.FINALIZER_SERVICE,
        "template-cache": labels.FINALIZER_TEMPLATE_CACHE,
        "profile-cache": labels.FINALIZER_PROFILE_CACHE,
    }


@pytest.mark.spec("FW-129")
@pytest.mark.parametrize("name", sorted(variants()))
def test_no_event_and_no_condition_tells_the_value_of_a_variable(name: str) -> None:
    before = variants()[name]
    env = {"env": [{"name": "HF_TOKEN", "value": SECRET}]}
    after = {**before, "spec": {**before["spec"], **env}, "metadata": {**before["metadata"], "generation": 2}}
    for one in passes_after(before, after):
        reported = [[event.message for event in one.plan.events], (one.plan.status or {}).get("conditions")]
        assert SECRET not in dumps(reported).decode()


@pytest.mark.spec("FW-380", "SV-349", "LA-031")
def test_only_the_registry_client_speaks_to_registries() -> None:
    """Of what is above the framework nothing else opens a connection, but for what asks Prometheus and engines."""
    files = [
        one for folder in ("services", "shared/domain", "shared/oci-registry") for one in (ROOT / folder).rglob("*.py")
    ]
    opening = {one for one in files if "import aiohttp" in one.read_text(encoding="utf-8")}
    outside = {one.name for one in opening if one.relative_to(ROOT).parts[1] != "oci-registry"}
    assert outside == {"rollout_checks.py", "adapter_loading.py"}


@pytest.mark.spec("FW-524", "FW-520")
def test_the_source_of_the_framework_names_no_platform() -> None:
    folder = ROOT / "shared/controller-runtime"
    files = [one for one in folder.rglob("*") if one.suffix in {".py", ".pyi", ".md"}]
    assert len(files) > 50
    own = re.compile(r"(?<![a-z])aim(?![a-z])|eai\.amd", re.IGNORECASE)
    words = [(str(one.relative_to(folder)), *own.findall(one.read_text(encoding="utf-8"))) for one in files]
    assert [one for one in words if len(one) > 1] == []
