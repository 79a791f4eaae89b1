"""The discovery service."""

import controller_runtime.uncollected  # noqa: F401  # before the other imports
from aim_discovery.service import SETTINGS, definition
from controller_runtime import run_service


def main() -> None:
    """Run until SIGTERM."""
    run_service(SETTINGS, definition)


if __name__ == "__main__":
    main()
