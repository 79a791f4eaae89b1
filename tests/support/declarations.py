"""What the five services declare, with default settings."""

from aim_cli.services import services
from controller_runtime import ServiceDefinition
from controller_runtime.manager.settings import load


def definitions() -> tuple[ServiceDefinition, ...]:
    """The declarations of all services."""
    return tuple(code.definition(load(code.settings, [])) for code in services().values())
