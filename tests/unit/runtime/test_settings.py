"""Settings: variables, flags, mistakes."""

import pytest

from aim_domain import AimSettings
from controller_runtime.manager.settings import (
    Address,
    effective,
    listen_address,
    load_settings,
    recorded,
    unknown_variables,
)


@pytest.mark.spec("FW-271", "FW-273")
def test_variables_with_units() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIM_RESYNC_INTERVAL", "2m30s")
        patch.setenv("AIM_NATS_HISTORY_BYTES", "2Gi")
        patch.setenv("AIM_LOG_FORMAT", "console")
        settings = load_settings(AimSettings, [])
    assert (settings.resync_interval, settings.nats_history_bytes) == (150.0, 2 << 30)
    assert settings.log_format == "console"


@pytest.mark.spec("FW-273")
def test_defaults() -> None:
    settings = load_settings(AimSettings, [])
    assert (settings.nats_url, settings.nats_heartbeat, settings.direct_watch) == ("nats://aim-nats:4222", 10.0, True)
    assert (settings.backoff_initial, settings.backoff_max, settings.resync_interval) == (0.2, 1000.0, 600.0)
    assert (settings.metrics_bind_address, settings.health_probe_bind_address) == ("0", ":8081")
    assert settings.leader_elect is False


@pytest.mark.spec("FW-272")
def test_a_flag_wins_over_its_variable() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIM_LOG_LEVEL", "error")
        assert load_settings(AimSettings, ["--log-level", "debug", "--leader-elect"]).log_level == "debug"


@pytest.mark.spec("FW-280")
@pytest.mark.parametrize(("word", "expected"), [("=false", False), ("=true", True), ("", True), ("=0", False)])
def test_switches_take_a_value_as_the_flags_of_the_older_binary_do(word: str, expected: bool) -> None:
    settings = load_settings(AimSettings, [f"--metrics-secure{word}", f"--leader-elect{word}", "--direct-watch=F"])
    assert (settings.metrics_secure, settings.leader_elect, settings.direct_watch) == (expected, expected, False)
    with pytest.raises(SystemExit):
        load_settings(AimSettings, ["--metrics-secure=maybe"])


@pytest.mark.spec("FW-271", "FW-280")
def test_levels_are_read_in_any_case() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIM_LOG_LEVEL", "ERROR")
        settings = load_settings(AimSettings, ["--log-format", "JSON"])
    assert (settings.log_level, settings.log_format) == ("error", "json")


@pytest.mark.spec("FW-272")
def test_the_help_shows_what_may_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        load_settings(AimSettings, ["--help"])
    assert ended.value.code == 0
    assert "--log-level {debug,info,error}" in capsys.readouterr().out


@pytest.mark.spec("FW-272")
@pytest.mark.parametrize(
    ("argv", "named"), [(["--no-such-flag"], "--no-such-flag"), (["--backoff-max", "soon"], "--backoff-max: ")]
)
def test_mistakes_end_the_process_and_are_named(
    argv: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        load_settings(AimSettings, argv)
    assert ended.value.code == 2
    assert named in capsys.readouterr().err


@pytest.mark.spec("FW-272")
def test_unknown_variables_are_found() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIM_TYPO", "1")
        patch.setenv("AIM_LOG_LEVEL", "info")
        # What the kubelet sets for a Service aim-nats.
        for name in ("PORT", "SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_CLIENT", "PORT_4222_TCP_ADDR"):
            patch.setenv(f"AIM_NATS_{name}", "10.0.0.1")
        assert unknown_variables(AimSettings) == ["AIM_TYPO"]


@pytest.mark.spec("FW-272")
@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("AIM_HEALTH_PROBE_BIND_ADDRESS", "8081"),
        ("AIM_METRICS_BIND_ADDRESS", ":http"),
        ("AIM_RESYNC_INTERVAL", "0s"),
        ("AIM_NATS_HEARTBEAT", "0s"),
    ],
)
def test_values_that_could_not_work_are_refused_at_start(
    variable: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable, value)
        with pytest.raises(SystemExit):
            load_settings(AimSettings, [])
    assert variable in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0", None),
        (":8081", Address("", 8081)),
        ("127.0.0.1:80", Address("127.0.0.1", 80)),
        ("[::1]:80", Address("::1", 80)),
    ],
)
def test_addresses(text: str, address: Address | None) -> None:
    assert listen_address(text) == address


@pytest.mark.spec("FW-436")
def test_the_effective_values_hold_no_credentials() -> None:
    values = effective(load_settings(AimSettings, ["--nats-url", "nats://who:secret@one:4222,nats://token@two"]))
    assert values["nats_url"] == "nats://***@one:4222,nats://***@two"
    assert values["resync_interval"] == 600.0


@pytest.mark.spec("FW-439")
def test_recorded_values_are_all_that_counts() -> None:
    values = {
        **effective(load_settings(AimSettings, ["--resync-interval", "5m", "--nats-url", "nats://a:b@c"])),
        "gone": "since",
    }
    del values["backoff_max"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIM_RESYNC_INTERVAL", "7m")
        patch.setenv("AIM_BACKOFF_MAX", "3m")
        settings = recorded(AimSettings, values)
    assert isinstance(settings, AimSettings)
    assert (settings.resync_interval, settings.backoff_max) == (300.0, 1000.0)
    with pytest.raises(ValueError, match="resync_interval"):
        recorded(AimSettings, {"resync_interval": "never"})
