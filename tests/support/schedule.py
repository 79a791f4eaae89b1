"""Which tests a worker takes together."""

from typing import Final

from xdist.scheduler import LoadFileScheduling

_SHARED_PLATFORM: Final = {
    "tests/e2e/test_killed_services.py": "platform 1",
    "tests/e2e/test_catalogue_labels.py": "platform 1",
    "tests/e2e/test_event_log.py": "platform 2",
    "tests/e2e/test_bad_input.py": "platform 2",
    "tests/e2e/test_demo_path.py": "platform 2",
    "tests/e2e/test_failure_paths.py": "platform 2",
}
"""Files whose tests share the platform of their process. Each worker that gets one of them starts a platform of ten
processes, so no more than two get any."""


class FileSchedule(LoadFileScheduling):
    """A worker takes whole files, and all files of one platform."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return _SHARED_PLATFORM.get(file, file)
