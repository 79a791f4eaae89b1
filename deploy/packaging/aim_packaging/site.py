"""The documentation of several releases side by side, as static files (FW-888)."""

import html
import json
import shutil
from pathlib import Path
from typing import Final

from semver import Version

LIST: Final = "versions.json"
"""What the pages read beside their own folder to offer the others: an array of names, newest first."""


def publish(built: Path, folder: Path, version: str) -> list[str]:
    """Put a built site into `folder` under its version, beside those that are there, and list all.

    The root of the folder leads to the newest release; prereleases only where there is no release.

    Returns:
        The versions, newest first.
    """
    place = folder / version
    if place.exists():
        shutil.rmtree(place)
    shutil.copytree(built, place, ignore=shutil.ignore_patterns(".doctrees", ".buildinfo"))
    found = [Version.parse(one.name) for one in folder.iterdir() if Version.is_valid(one.name)]
    versions = [str(one) for one in sorted(found, reverse=True)]
    (folder / LIST).write_text(json.dumps(versions), encoding="utf-8")
    newest = html.escape(str(max(found, key=lambda one: (one.prerelease is None, one))))
    lead = f'<meta http-equiv="refresh" content="0; url={newest}/index.html"><a href="{newest}/index.html">{newest}</a>'
    (folder / "index.html").write_text(f"<!doctype html>{lead}\n", encoding="utf-8")
    return versions
