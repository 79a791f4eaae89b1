"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# Machines are slow and busy now and then: a property fails for what it finds, never for how long that took.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")
