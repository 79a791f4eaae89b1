"""The declarations of the five services, as an installation with default settings has them."""

from aim_cli.services import services
from controller_runtime import ServiceDefinition
from controller_runtime.manager import load_settings


def definitions() -> tuple[ServiceDefinition, ...]:
    """What each service declares, in the order in which they are documented."""
    return tuple(code.definition(load_settings(code.settings, [])) for code in services().values())
