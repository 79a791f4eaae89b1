"""What a retry takes over from the sync before, and how much of it is kept."""

import pytest

from aim_model_sync.candidates import FoundImages
from aim_model_sync.codes import SelectorError
from aim_model_sync.sync import Evaluated, Evaluation, SyncParams, UncleanSyncs
from oci_registry import RegistryErrorCode, Repository


def params(uid: str) -> SyncParams:
    return SyncParams(
        source=uid, uid=uid, generation=1, attempt=2, registry="", interval=3600.0, selectors=(), secrets=()
    )


def evaluated(images: int) -> list[Evaluated]:
    """A selector with so many images, and one that has to be asked again."""
    versions = tuple(map(str, range(images)))
    good = Evaluation((FoundImages.of(Repository("docker.io", "org/a"), versions),))
    bad = Evaluation(error=SelectorError(RegistryErrorCode.TIMEOUT, "late"))
    return [Evaluated("org/a", "docker.io", good, 1e9), Evaluated("org/b", "docker.io", bad, 1e9)]


@pytest.mark.spec("MS-256")
async def test_what_succeeded_is_kept_and_what_can_change_is_not() -> None:
    kept = UncleanSyncs()
    kept.remember(params("a"), evaluated(3))
    assert list(kept.reusable(params("a"))) == [0]
    kept.remember(params("a"), evaluated(3)[:1])
    assert kept.reusable(params("a")) == {}, "a clean sync leaves nothing to retry"


async def test_memory_is_bounded_by_sources_and_by_images() -> None:
    kept = UncleanSyncs(capacity=2, images=10)
    for uid in ("a", "b", "c"):
        kept.remember(params(uid), evaluated(4))
    assert [uid for uid in "abc" if kept.reusable(params(uid))] == ["b", "c"]
    kept.remember(params("b"), evaluated(9))
    assert [uid for uid in "abc" if kept.reusable(params(uid))] == ["b"]
    kept.remember(params("d"), evaluated(11))
    assert [uid for uid in "abcd" if kept.reusable(params(uid))] == []
