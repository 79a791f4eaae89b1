"""``make compatibility``: what of this release the former one, its objects and its users cannot live with.

Ends with 0 when there is nothing, or nothing that is not meant so (`meant.yaml`).
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml
from compatibility import definitions, messages
from compatibility.finding import Finding, Judged, judged, reasons_of
from upgrade.release import PREVIOUS, ROOT, NoHistoryError, unpacked

from controller_runtime.json import JsonObject

MEANT: Final = Path(__file__).parent / "meant.yaml"


def read_definitions(folder: Path) -> dict[str, JsonObject]:
    """The definitions in a folder, by name."""
    read = (yaml.safe_load(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.yaml")))
    return {one["metadata"]["name"]: one for one in read}


def lines_of(found: Judged) -> Iterator[str]:
    """What is printed."""
    for finding, reason in found.meant:
        yield f"meant: {finding.name} ({reason})"
    for finding in found.open:
        yield f"breaks: {finding}"
    for name in found.stale:
        yield f"stale: {name}: no such finding any more, take it out of {MEANT.relative_to(ROOT)}"
    yield f"{len(found.open)} break something, {len(found.meant)} are meant to, {len(found.stale)} entries are stale"


def told(packages: str) -> JsonObject:
    """What a release says that it writes, by its own packages."""
    script = str(Path(__file__).parent / "reported.py")
    env = {**os.environ, "PYTHONPATH": packages}
    done = subprocess.run([sys.executable, script], env=env, check=True, capture_output=True)
    found: JsonObject = json.loads(done.stdout)
    return found


def _findings(former: Path, packages: str) -> list[Finding]:
    return [
        *definitions.compared(read_definitions(former / "deploy/crds"), read_definitions(ROOT / "deploy/crds")),
        *messages.compared(told(packages), told("")),
    ]


def main() -> int:
    """Compare with the former release."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            packages = asyncio.run(unpacked(PREVIOUS, Path(folder)))
        except NoHistoryError as error:
            print(error, file=sys.stderr)
            return 2
        found = judged(_findings(Path(folder), packages), reasons_of(yaml.safe_load(MEANT.read_text(encoding="utf-8"))))
    print("\n".join(lines_of(found)))
    return int(found.fails)


if __name__ == "__main__":
    sys.exit(main())
