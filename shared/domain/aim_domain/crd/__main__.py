"""`python -m aim_domain.crd [--check] FOLDER`: write the CRD manifests, or fail when they are not up to date."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from aim_domain.crd.manifests import differing, write


def main() -> int:
    """Exit code 0 when the folder holds what the models give, 1 when a check found a difference."""
    parser = argparse.ArgumentParser(prog="python -m aim_domain.crd", description="CRDs from the models")
    parser.add_argument("folder", type=Path, help="folder of the manifests")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 when a file differs")
    arguments = parser.parse_args()
    if not arguments.check:
        for name in write(arguments.folder):
            print(f"updated {arguments.folder / name}")
        return 0
    stale = differing(arguments.folder)
    for name in stale:
        print(f"{arguments.folder / name} differs from the models; run `make crds`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
