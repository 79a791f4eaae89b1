"""``status.progress``, ``status.download`` and ``DownloadComplete`` as far as this service writes them (AR-303…AR-316).

Most of both fields belongs to the downloader pod; what is left out here is left to it (AR-305).
"""

from dataclasses import dataclass
from typing import Final

from aim_artifacts.conditions import DOWNLOAD_COMPLETE, DOWNLOADING, VERIFICATION_FAILED, VERIFIED, VERIFYING
from aim_artifacts.downloader_contract import CATEGORY_OF_CODE, COMPLETE, ExitCode, display_percentage, progress_json
from aim_domain import AIMArtifact, AIMArtifactStatus
from controller_runtime import Change, Desired, JsonObject, Observability, condition, to_json

_OF_THE_POD: Final = ("progress", "download")
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
        progress = progress_json(COMPLETE, size, size)
        return {"progress": progress, **({"download": {"message": "Complete"}} if status.download else {})}
    if outcome.failed:
        return {"progress": {"displayPercentage": _NOT_APPLICABLE}}
    percentage = None if status.progress is None else status.progress.percentage
    if percentage is None or _is_mirrored(status):
        return {}
    return {"progress": {"displayPercentage": display_percentage(percentage)}}


def _is_mirrored(status: AIMArtifactStatus) -> bool:
    progress = status.progress
    if progress is None or progress.percentage is None:
        return False
    return progress.display_percentage == display_percentage(progress.percentage)


def is_mere_progress(change: Change[AIMArtifact]) -> bool:
    """Whether a transfer only went on: no decision depends on how far it is before its end (AR-305)."""
    before, after = change.before, change.after
    if before is None or after is None or not (_in_transfer(before.status) and _in_transfer(after.status)):
        return False
    return _but_progress(before) == _but_progress(after)


def _in_transfer(status: AIMArtifactStatus) -> bool:
    """The pod's own words about an unfinished transfer, not what this service has made of them (AR-303, AR-304)."""
    return _is_mirrored(status) and status.progress is not None and status.progress.percentage != COMPLETE


def _but_progress(artifact: AIMArtifact) -> tuple[object, ...]:
    metadata, status = artifact.metadata, to_json(artifact.status)
    rest = {name: value for name, value in status.items() if name not in _OF_THE_POD}
    identity = (artifact.uid, metadata.generation, metadata.deletion_timestamp)
    owners = (metadata.owner_references, metadata.finalizers)
    return (*identity, metadata.labels, metadata.annotations, *owners, rest, artifact.status.download is None)


def download_complete(status: AIMArtifactStatus, outcome: DownloadOutcome) -> Desired:
    """The condition ``DownloadComplete`` (AR-310, AR-311)."""
    at_end = status.progress is not None and status.progress.percentage == COMPLETE
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
    if outcome.running:
        return condition(DOWNLOAD_COMPLETE, False, DOWNLOADING, "Files are being downloaded")
    return condition(DOWNLOAD_COMPLETE, False, DOWNLOADING, "The download waits for its pod to start")


def _failed(reason: str, message: str) -> Desired:
    return condition(DOWNLOAD_COMPLETE, False, reason, message, Observability.ERROR)
