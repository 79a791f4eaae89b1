"""A process whose event loop one object holds, and the one after it."""

from pathlib import Path

import pytest
from support.controlplane import RawApi
from support.nats import eventually
from support.runtime_fixtures import MODELS, model, seen
from support.services import Platform
from support.tiny_service import ENDLESS, ENDLESS_INDEX, LOCKING, LOCKING_INDEX

NAME = "aim-tiny-uid-of-pod-0"


def is_written(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


@pytest.mark.spec("FW-745", "FW-746", "FW-747", "FW-748")
@pytest.mark.parametrize(
    ("image", "written", "held"),
    [
        (ENDLESS, "overruns", "a decision about it"),
        (LOCKING, "trace", "a decision about it"),
        (ENDLESS_INDEX, "overruns", "taking it in"),
        (LOCKING_INDEX, "trace", "taking it in"),
    ],
)
async def test_an_object_that_holds_a_process_is_skipped_by_the_next(
    stage: Platform, api: RawApi, image: str, written: str, held: str
) -> None:
    first = await stage.started(DECISION_BUDGET="500ms")
    await first.ready()
    await api.created(MODELS, model("hostile", image))
    await eventually(lambda: is_written(stage.folder / f"{NAME}.{written}"), f"{written} of the watchdog")
    if written == "overruns":
        # The file comes before the log line, and the next process repeats no line of an overrun that it finds there.
        await eventually(lambda: any("frames" in one for one in first.lines), "the log line")
    # As the kubelet does it, which has asked /healthz in vain.
    await first.kill()

    second = await stage.started(DECISION_BUDGET="500ms")
    await api.created(MODELS, model("good", "good:1"))
    await seen(api, "good", "good:1")
    skipped = await api.until(
        f"{MODELS}/hostile", lambda reply: reply.status == 200 and bool(reply.body.get("status", {}).get("conditions"))
    )
    [condition] = skipped.body["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("Reconciled", "TimeBudgetExceeded")
    assert f"AIMModel hostile not reconciled: {held} took longer than 0.5 s" in condition["message"]
    [line] = [one for process in (first, second) for one in process.lines if "frames" in one]
    assert (line["namespace"], line["name"], line["kind"]) == ("default", "hostile", "AIMModel")
    assert any("hold" in frame for frame in line["frames"])
    assert await second.ask("/healthz") == (200, "ok")

    await api.merge(f"{MODELS}/hostile", {"spec": {"image": "mended:1"}})
    await seen(api, "hostile", "mended:1")
