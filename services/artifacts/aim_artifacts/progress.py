"""``status.progress``, ``status.download`` and ``DownloadComplete`` as far as this service writes them (AR-303…AR-316).

Most of both fields belongs to the downloader pod; what is left out here is left to it (AR-305).
"""

from dataclasses import dataclass
from typing import Final

from aim_artifacts.conditions import DOWNLOAD_COMPLETE, DOWNLOADING, VERIFICATION_FAILED, VERIFIED, VERIFYING
from aim_artifacts.exit_codes import CATEGORY_OF_CODE, ExitCode
from aim_shared.api import AIMArtifactStatus
from aim_shared.json import JsonObject
from aim_shared.reconcile.components import Observability
from aim_shared.reconcile.conditions import Desired, condition

_COMPLETE: Final = 100
_NOT_APPLICABLE: Final = "N/A"


@dataclass(frozen=True, slots=True)
class DownloadOutcome:
    """How the download stands.

    Attributes:
        succeeded: the content of the volume is verified.
        running: the newest pod is at work or has just ended well; only then the progress is more than what an
            earlier pod left behind.
        failed: the newest pod or the Job has failed.
        exit_code: of the newest pod's container, when it failed.
    """

    succeeded: bool = False
    running: bool = False
    failed: bool = False
    exit_code: int = 0


def progress_fields(status: AIMArtifactStatus, outcome: DownloadOutcome, size: int | None) -> JsonObject:
    """Members ``progress`` and ``download`` to apply; empty while the pod alone has a say."""
    if outcome.succeeded:
        total = {} if size is None else {"totalBytes": size, "downloadedBytes": size}
        progress = {**total, "percentage": _COMPLETE, "displayPercentage": _display(_COMPLETE)}
        return {"progress": progress, **({"download": {"message": "Complete"}} if status.download else {})}
    if outcome.failed:
        return {"progress": {"displayPercentage": _NOT_APPLICABLE}}
    percentage = status.progress.percentage if status.progress else None
    if status.progress is None or percentage is None or status.progress.display_percentage == _display(percentage):
        return {}
    return {"progress": {"displayPercentage": _display(percentage)}}


def download_complete(status: AIMArtifactStatus, outcome: DownloadOutcome) -> Desired:
    """The condition ``DownloadComplete`` (AR-310, AR-311)."""
    at_end = status.progress is not None and status.progress.percentage == _COMPLETE
    if outcome.succeeded:
        return condition(DOWNLOAD_COMPLETE, True, VERIFIED, "All files are downloaded and verified")
    if outcome.failed:
        classified = outcome.exit_code in CATEGORY_OF_CODE and outcome.exit_code >= ExitCode.AUTH
        verifying = outcome.exit_code == ExitCode.VERIFICATION_FAILED if classified else at_end
        if verifying:
            return _failed(VERIFICATION_FAILED, "The downloaded files failed verification")
        return _failed(DOWNLOADING, "The download failed before completion")
    if at_end and outcome.running:
        return condition(DOWNLOAD_COMPLETE, True, VERIFYING, "All files are downloaded and being verified")
    return condition(DOWNLOAD_COMPLETE, False, DOWNLOADING, "Files are being downloaded")


def _failed(reason: str, message: str) -> Desired:
    return condition(DOWNLOAD_COMPLETE, False, reason, message, Observability.ERROR)


def _display(percentage: int) -> str:
    return f"{percentage} %"
