"""What the five services declare, with default settings."""

from aim_cli.services import services
from controller_runtime import ServiceDefinition
from controller_runtime.manager.settings import load_settings


def definitions() -> tuple[ServiceDefinition, ...]:
    """The declarations of all services."""
    return tuple(code.definition(load_settings(code.settings, [])) for code in services().values())
