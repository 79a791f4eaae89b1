"""Serving: turns AIMServices into KServe InferenceServices."""

from typing import Final

SERVICE_NAME: Final = "serving"
"""Name of the service; its facts carry it."""
