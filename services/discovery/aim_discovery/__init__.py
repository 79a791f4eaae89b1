"""Discovery: inspects images, creates templates and finds their runtime profiles."""

from typing import Final

SERVICE_NAME: Final = "discovery"
"""Name of the service; its facts carry it."""
