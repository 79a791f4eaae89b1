"""Artifacts: brings model weights into shared volumes."""

from typing import Final

SERVICE_NAME: Final = "artifacts"
"""Name of the service; its facts carry it."""
