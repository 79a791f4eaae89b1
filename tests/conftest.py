"""What holds for all tests."""

import os

from hypothesis import HealthCheck, settings
from support.planned_schemas import assert_accepted
from support.planned_writes import PlannedWrite, watch_plans

# Machines are slow and busy now and then: a property fails for what it finds, never for how long that took.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")


def _judge(write: PlannedWrite) -> None:
    """Hold a plan of a unit test against the schemas of the API; elsewhere an API server does that."""
    if os.environ.get("PYTEST_CURRENT_TEST", "").startswith("tests/unit/"):
        assert_accepted(write)


# Here, because reconcilers are watched only when they are made later: before any test module is imported.
watch_plans(_judge)
