"""The discovery service."""

import controller_runtime.uncollected  # noqa: F401  # before the other imports
from aim_discovery.service import definition, effect_runners
from aim_discovery.settings import DiscoverySettings
from controller_runtime import run_service


def main() -> None:
    """Run until SIGTERM."""
    run_service(DiscoverySettings, definition, effect_runners)


if __name__ == "__main__":
    main()
