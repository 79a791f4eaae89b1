"""Which tests a worker takes together."""

from typing import Final

from xdist.scheduler import LoadFileScheduling

_FOLDER: Final = "tests/e2e/"
_PLATFORM_1: Final = frozenset(
    f"{_FOLDER}test_{name}.py"
    for name in ("catalogue_labels", "killed_services", "label_propagation", "older_documents", "shared_gateway")
)
_OF_ITS_OWN: Final = f"{_FOLDER}test_demo_command.py"


def _together(file: str) -> str:
    """A name that is the same for files whose tests share the platform of their process.

    Each worker that gets one of them starts a platform of ten processes, so no more than two get any.
    """
    if not file.startswith(_FOLDER) or file == _OF_ITS_OWN:
        return file
    return "platform 1" if file in _PLATFORM_1 else "platform 2"


class FileSchedule(LoadFileScheduling):
    """A worker takes whole files, and all files of one platform."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return _together(file)
