"""The five services, each of which is a package below `services` and a Deployment of the chart.

`tests/unit/test_service_declarations.py` compares the image builder, which cannot import this.
"""

from typing import Final

SERVICES: Final = ("model-sync", "discovery", "artifacts", "serving", "routing")
"""Their names, in the order in which an object passes through them."""


def package_of(service: str) -> str:
    """The name of a service's Python package."""
    return f"aim_{service.replace('-', '_')}"
