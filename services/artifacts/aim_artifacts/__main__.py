"""The artifacts service."""

import controller_runtime.uncollected  # noqa: F401  # before the other imports
from aim_artifacts.service import definition, effect_runners
from aim_artifacts.settings import ArtifactsSettings
from controller_runtime import run_service


def main() -> None:
    """Run until SIGTERM."""
    run_service(ArtifactsSettings, definition, effect_runners)


if __name__ == "__main__":
    main()
