"""Model-sync: follows container registries and creates AIMClusterModels."""

from typing import Final

SERVICE_NAME: Final = "model-sync"
"""Name of the service; its facts carry it."""
