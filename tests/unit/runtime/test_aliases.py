"""Flags of the existing binary."""

import pytest

from aim_domain import AimSettings
from controller_runtime.manager.settings import load_settings, translated


@pytest.mark.spec("FW-280")
@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["--zap-encoder=console"], ["--log-format", "console"]),
        (["--zap-encoder", "json", "--leader-elect"], ["--log-format", "json", "--leader-elect"]),
        (["--zap-log-level=error"], ["--log-level", "error"]),
        (["--zap-log-level", "2"], ["--log-level", "debug"]),
        (["--zap-devel"], ["--log-level", "debug", "--log-format", "console"]),
        (["--zap-devel=false"], []),
        (["--zap-stacktrace-level=error"], ["--log-stacktrace-level", "error"]),
        (["--webhook-cert-path", "/tmp/x", "--webhook-cert-key=y"], []),
    ],
)
def test_aliases(given: list[str], meant: list[str]) -> None:
    assert translated(given) == meant


@pytest.mark.spec("FW-280")
def test_they_reach_the_settings() -> None:
    settings = load_settings(
        AimSettings, ["--zap-devel", "--zap-stacktrace-level", "panic", "--health-probe-bind-address", ":9090"]
    )
    assert (settings.log_level, settings.log_format) == ("debug", "console")
    assert settings.log_stacktrace_level == "panic"
    assert settings.health_probe_bind_address == ":9090"
