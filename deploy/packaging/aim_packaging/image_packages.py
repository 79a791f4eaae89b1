"""What of the lock goes into each image: what its distribution needs, and nothing that is there for tests."""

import json
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from aim_domain.services import SERVICES

_SERVICES: Final = {name: f"aim-{name}" for name in SERVICES}
IMAGES: Final = {
    **{image: (name,) for image, name in _SERVICES.items()},
    "downloader": ("aim-artifacts",),
    "cli": ("aim-cli", "aim-console", *_SERVICES.values()),
}
"""Image → distributions that it holds with all that they need."""
_OWN: Final = "aim-"
_ENVIRONMENT: Final = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
"""Images are of Linux wherever this runs. Of Python they have the version that this runs on."""


def packages_json() -> str:
    """Image → names of the packages of others that it holds."""
    found = {image: sorted(_foreign(names)) for image, names in IMAGES.items()}
    return json.dumps(found, indent=1) + "\n"


def _foreign(names: Iterable[str]) -> set[str]:
    return {one for name in names for one in closure(name) if not one.startswith(_OWN)}


def closure(name: str) -> set[str]:
    """A distribution and all that it needs, by their normalized names."""
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting: list[tuple[str, frozenset[str]]] = [(canonicalize_name(name), frozenset())]
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            waiting += _requirements_of(*one)
    return {found for found, _ in seen}


def _requirements_of(name: str, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for line in distribution(name).requires or ():
        wanted = Requirement(line)
        if wanted.marker is None or any(
            wanted.marker.evaluate({**_ENVIRONMENT, "extra": extra}) for extra in extras or {""}
        ):
            yield canonicalize_name(wanted.name), frozenset(wanted.extras)
