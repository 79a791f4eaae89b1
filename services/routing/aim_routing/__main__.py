"""The routing service."""

from aim_routing.service import definition, effect_runners
from aim_shared.runtime.run import run_service
from aim_shared.runtime.settings import Settings


def main() -> None:
    """Run until SIGTERM."""
    run_service(Settings, definition, effect_runners)


if __name__ == "__main__":
    main()
