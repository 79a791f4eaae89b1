"""The routing service."""

from aim_routing.service import definition, effect_runners
from controller_runtime import Settings, run_service


def main() -> None:
    """Run until SIGTERM."""
    run_service(Settings, definition, effect_runners)


if __name__ == "__main__":
    main()
