"""What holds for all tests."""

import gc
import os
import secrets

import pytest
import structlog
from hypothesis import HealthCheck, settings
from support.planned_schemas import assert_accepted
from support.planned_shapes import TESTS_OF_SERVICES, assert_shaped
from support.planned_writes import PlannedWrite, watch_plans
from support.schedule import FileSchedule, longest_first
from xdist.remote import Producer

# Thousands of tests and the modules that they import come into being from here on, and none of that ever goes: the
# collector need not look at it, neither now nor amid the tests.
gc.disable()
# A test makes few cycles: looking for them after every 700 objects takes a twentieth of the tests' processor time.
gc.set_threshold(20_000)

# A property fails for what it finds, never for how long that took. Its examples follow from the test alone, and none
# are remembered on disk: whoever runs the same tree runs the same examples. AIM_EXPLORE=random looks for others.
settings.register_profile(
    "fixed", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("random", settings.get_profile("fixed"), derandomize=False, print_blob=True)
EXPLORE = os.environ.get("AIM_EXPLORE", "fixed")
settings.load_profile(EXPLORE)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed of a random run here, so that it is printed, and so that all workers have the same."""
    if EXPLORE == "random" and config.getoption("--hypothesis-seed") is None:
        config.option.hypothesis_seed = str(secrets.randbits(64))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest."""
    longest_first(items)


def pytest_collection_finish() -> None:
    """From now on, collect only what tests make."""
    gc.freeze()
    gc.enable()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileSchedule | None:
    """Files whole, some of them together."""
    return FileSchedule(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_report_header(config: pytest.Config) -> str | None:
    """How to run the same examples once more."""
    if EXPLORE != "random":
        return None
    return f"examples at random: AIM_EXPLORE=random, --hypothesis-seed={config.getoption('--hypothesis-seed')}"


def _judge(write: PlannedWrite) -> None:
    """Hold a plan of a unit test against the schemas of the API; elsewhere an API server does that. What the services
    make is held against what holds for all their children as well.
    """
    test = os.environ.get("PYTEST_CURRENT_TEST", "")
    if test.startswith("tests/unit/"):
        assert_accepted(write)
    if test.startswith(TESTS_OF_SERVICES):
        assert_shaped(write)


# Structlog's own choice draws every traceback with the sources and values around it, which takes most of a second.
structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)
watch_plans(_judge)
