"""The routing service."""

from aim_domain import AimSettings
from aim_routing.service import definition, effect_runners
from controller_runtime import run_service


def main() -> None:
    """Run until SIGTERM."""
    run_service(AimSettings, definition, effect_runners)


if __name__ == "__main__":
    main()
