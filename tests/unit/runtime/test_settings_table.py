"""The settings of the five services against the table of FW-273."""

import re
from pathlib import Path
from typing import Final

import pytest

from aim_artifacts.settings import ArtifactsSettings
from aim_discovery.settings import DiscoverySettings
from aim_domain import AimSettings, DivisibleSettings
from aim_model_sync.settings import ModelSyncSettings
from aim_serving.service import ServingSettings
from controller_runtime.manager.settings import load_settings, unknown_variables

SPEC: Final = Path(__file__).parents[3] / "docs/spec/framework.md"
SERVICES: Final[dict[str, type[AimSettings]]] = {
    "model-sync": ModelSyncSettings,
    "discovery": DiscoverySettings,
    "artifacts": ArtifactsSettings,
    "serving": ServingSettings,
    "routing": DivisibleSettings,
}
NOT_IMPLEMENTED: Final = frozenset(
    {
        "AIM_ENABLE_HTTP2",
    }
)
"""Reason: not implemented."""


def table() -> dict[str, frozenset[str]]:
    """Variable to the services that have it."""
    text = SPEC.read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (`AIM_[^|]*) \| ([^|]*) \|", text.partition("**FW-273**")[2].partition("**FW-274**")[0], re.MULTILINE
    )
    return {
        variable: frozenset(SERVICES) if services == "all" else frozenset(services.split(", "))
        for variables, services in rows
        for variable in re.findall(r"AIM_[A-Z0-9_]+", variables)
    }


def accepted(settings: type[AimSettings]) -> set[str]:
    return {f"AIM_{name.upper()}" for name in settings.model_fields}


@pytest.mark.spec("FW-273")
@pytest.mark.parametrize("service", SERVICES)
def test_a_service_has_the_settings_of_the_table_and_no_others(service: str) -> None:
    named = {variable for variable, services in table().items() if service in services}
    assert accepted(SERVICES[service]) == named - NOT_IMPLEMENTED


def test_what_is_not_implemented_is_in_the_table() -> None:
    assert set(table()) >= NOT_IMPLEMENTED


@pytest.mark.spec("FW-271", "FW-272", "FW-273")
def test_registry_access_is_set_like_everything_else() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIM_REGISTRY_CONNECT_TIMEOUT", "1m30s")
        patch.setenv("AIM_REGISTRY_REALM_ALLOWLIST", "a.example, B.example,")
        patch.setenv("AIM_REGISTRY_CONFIG", "")
        patch.setenv("AIM_DOCKER_REGISTRY_URL", "http://127.0.0.1:5000/")
        assert unknown_variables(ModelSyncSettings) == []
        assert "AIM_REGISTRY_CONFIG" in unknown_variables(ArtifactsSettings)
        settings = load_settings(DiscoverySettings, ["--registry-max-connections", "3", "--inspection-timeout", "5s"])
    assert settings.registry_connect_timeout == 90
    assert settings.registry_realm_allowlist == ("a.example", "b.example")
    assert settings.registry_config is None
    assert settings.docker_registry_url == "http://127.0.0.1:5000"
    assert (settings.registry_max_connections, settings.inspection_timeout) == (3, 5)
    assert (settings.registry_request_timeout, settings.registry_max_pages) == (30, 1000)
    assert settings.registry_max_body_bytes == 33554432


@pytest.mark.spec("FW-272")
@pytest.mark.parametrize(
    ("name", "value"),
    [("AIM_REGISTRY_REQUEST_TIMEOUT", "soon"), ("AIM_REGISTRY_MAX_PAGES", "0"), ("AIM_GITHUB_API_URL", "github")],
)
def test_unusable_registry_settings_are_refused(name: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(name, value)
        with pytest.raises(SystemExit):
            load_settings(ModelSyncSettings, [])
    assert name in capsys.readouterr().err


@pytest.mark.spec("FW-272")
@pytest.mark.parametrize("settings", [DiscoverySettings, ModelSyncSettings])
def test_unknown_flags_are_refused_by_every_service(settings: type[AimSettings]) -> None:
    with pytest.raises(SystemExit):
        load_settings(settings, ["--registry-typo", "1"])
