"""What a discovery container prints in order to harm: each is a failed attempt, and soon."""

import json
import time

import pytest

from aim_discovery.templates.output import InvalidOutputError, first_profile, profile_and_sources
from controller_runtime import JsonObject, dumps

GOOD = '[{"models": []}]'
MODEL = {"name": "a/b", "source": "hf://a/b"}


@pytest.mark.spec("FW-597", "DI-263")
@pytest.mark.parametrize(
    "log",
    [
        "[" * 100_000,
        '[{"a":' * 50_000,
        "[" * 100_000 + "\n" + GOOD,
        ("[" * 900 + "x ") * 300,
        "[1 " * 1_000_000,
        '[{"a": "\\ud800"}]',
        '[{"a": 99999999999999999999999}]',
        '[{"a": ' + "[" * 300 + "]" * 300 + "}]",
    ],
    ids=["deep", "deep objects", "deep, then good", "deep again and again", "broken", "half a character", "number",
         "deeper than can be written"],
)  # fmt: skip
def test_what_costs_too_much_or_cannot_be_stored_is_no_result(log: str) -> None:
    began = time.process_time()
    with pytest.raises(InvalidOutputError):
        first_profile(log)
    # Ten times what it takes; without a bound these took minutes.
    assert time.process_time() - began < 10


@pytest.mark.spec("FW-597", "DI-262")
@pytest.mark.parametrize(
    "noise", ["\x1b[0m\x1b[31mred\x1b[0m\n" * 20_000, "[INFO] up\n" * 20_000, "[2026-01-01 10:00] up\n" * 9_000]
)
def test_a_chatty_log_is_read(noise: str) -> None:
    assert first_profile(noise + GOOD + noise[:50]) == {"models": []}


@pytest.mark.spec("FW-597", "DI-273")
@pytest.mark.parametrize(
    "element",
    [
        {"models": [{**MODEL, "size_gb": 1e305}]},
        {"models": [{**MODEL, "name": "\n" * 100_000}]},
        {"models": [MODEL] * 50_000},
        # A backslash is two in JSON, and four in JSON as text.
        {"profile": {"env_vars": {"A": {"b": "\\" * 400_000}}}},
    ],
    ids=["size", "long name", "count", "grows"],
)
def test_what_the_status_could_not_hold_is_no_result(element: JsonObject) -> None:
    with pytest.raises(InvalidOutputError) as refused:
        profile_and_sources(element, None)
    assert len(str(refused.value)) < 1_000
    assert str(refused.value).isprintable()


@pytest.mark.spec("FW-597")
def test_control_characters_and_markup_stay_data() -> None:
    text = "\x00\x1b[2J</script><img src=x>\u202e"
    log = json.dumps([{"profile": {"metadata": {"engine": text}, "env_vars": {"A": text}}, "models": [MODEL]}])
    profile, sources = profile_and_sources(first_profile(log), None)
    assert profile["metadata"]["engine"] == profile["env_vars"]["A"] == text
    assert [one["modelId"] for one in sources] == ["a/b"]
    assert len(dumps(profile)) < 2_000


@pytest.mark.spec("CC-340", "FW-597", "DI-423")
@pytest.mark.parametrize(
    "element",
    [
        {"profile": {"env_vars": {f"V{number}": "x" for number in range(257)}}},
        {"profile": {"env_vars": {"V": "x" * 65_537}}},
        {"profile": {"metadata": {"engine": "x" * 4097}}},
        {"profile": {"metadata": {"gpu": "x" * 65}}},
        {"models": [MODEL] * 257},
        {"models": [{"name": "a/" + "b" * 4096, "source": "hf://a/b"}]},
    ],
)
def test_a_profile_beyond_the_bounds_is_a_failed_attempt(element: JsonObject) -> None:
    with pytest.raises(InvalidOutputError, match="are allowed"):
        profile_and_sources(element, None)
