"""Which tests a worker takes together, and which are taken first."""

from typing import Final

import pytest
from xdist.scheduler import LoadFileScheduling

_FOLDER: Final = "tests/e2e/"
_PLATFORM_1: Final = frozenset(
    f"{_FOLDER}test_{name}.py"
    for name in ("catalogue_labels", "killed_services", "label_propagation", "older_documents", "shared_gateway")
)
LONGEST: Final = (
    "chaos/test_service_leaders",
    "chaos/test_service_shards",
    "integration/packaging/test_refused_reader",
    "integration/serving/test_serving_service",
    "unit/test_enqueue_by_dependencies",
    "unit/test_bad_values",
    "integration/runtime/test_service_troubles",
    "unit/test_hostile_text",
    "chaos/test_publisher_chaos",
    "unit/cli/test_imports",
    "integration/runtime/test_service_start",
)
"""Files that take longest, those that wait between those that compute."""
_OF_ITS_OWN: Final = f"{_FOLDER}test_demo_command.py"


def _together(file: str) -> str:
    """A name that is the same for files whose tests share the platform of their process.

    Each worker that gets one of them starts a platform of ten processes, so no more than two get any.
    """
    if not file.startswith(_FOLDER) or file == _OF_ITS_OWN:
        return file
    return "platform 1" if file in _PLATFORM_1 else "platform 2"


def longest_first(items: list[pytest.Item]) -> None:
    """Take the longest files first, so that none is left when the other workers have nothing to do."""
    # The order of arguments does not do it: pytest takes a file that another argument contains in its place there.
    place = {f"tests/{file}.py": number for number, file in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.nodeid.partition("::")[0], len(place)))


class FileSchedule(LoadFileScheduling):
    """A worker takes whole files, and all files of one platform."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return _together(file)
