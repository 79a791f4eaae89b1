"""``status.progress`` as the downloader's pod and the service both write it (AR-300…AR-303, AR-316)."""

from typing import Final

from controller_runtime import JsonObject

COMPLETE: Final = 100


def progress_json(percentage: int, downloaded: int | None, total: int | None) -> JsonObject:
    """All members; bytes that nobody knows are left out."""
    known = {"downloadedBytes": downloaded, "totalBytes": total}
    shown = {"percentage": percentage, "displayPercentage": display_percentage(percentage)}
    return {**shown, **{name: value for name, value in known.items() if value is not None}}


def display_percentage(percentage: int) -> str:
    """The percentage as people read it."""
    return f"{percentage} %"
