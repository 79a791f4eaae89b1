"""The serving service."""

import controller_runtime.uncollected  # noqa: F401  # before the other imports
from aim_domain import AimSettings
from aim_serving.service import definition, effect_runners
from controller_runtime import run_service


def main() -> None:
    """Run until SIGTERM."""
    run_service(AimSettings, definition, effect_runners)


if __name__ == "__main__":
    main()
