"""The discovery service."""

from aim_discovery.service import definition, effect_runners
from aim_discovery.settings import DiscoverySettings
from controller_runtime import run_service


def main() -> None:
    """Run until SIGTERM."""
    run_service(DiscoverySettings, definition, effect_runners)


if __name__ == "__main__":
    main()
