"""Whether a version may be put over what the stream holds."""

from dataclasses import replace

import pytest

from controller_runtime import Key
from controller_runtime.log.publish.judgement import (
    Scope,
    StoredVersion,
    Verdict,
    differences,
    is_ahead,
    judge,
    newest_version,
)
from controller_runtime.log.publish.source import SourceVersion
from controller_runtime.log.wire.messages import Verb, digest_of

KEY = Key("ns", "a")
SCOPE = Scope("e2", "e1")
BODY = digest_of(b"{}", "")
HELD = StoredVersion(7, Verb.UPSERT, "e2", "u", "10", BODY, 7)


def wanted(rv: int | str, uid: str = "u", verb: Verb = Verb.UPSERT) -> SourceVersion:
    if verb is Verb.DELETE:
        return SourceVersion.deletion(KEY, uid, str(rv))
    return SourceVersion.of(KEY, uid, str(rv), b"{}", "")


@pytest.mark.parametrize(
    ("version", "held", "verdict"),
    [
        (wanted(10), None, Verdict.PUBLISH),
        (wanted(10), HELD, Verdict.DONE),
        (wanted(11), HELD, Verdict.PUBLISH),
        (wanted(9), HELD, Verdict.STALE),
        # Another object of that name: etcd's versions compare over all objects of a kind.
        (wanted(9, "v"), HELD, Verdict.STALE),
        (wanted(11, "v"), HELD, Verdict.PUBLISH),
        # A deletion at the same version is the later of the two, whichever comes first.
        (wanted(10, verb=Verb.DELETE), HELD, Verdict.PUBLISH),
        (wanted(10), replace(HELD, verb=Verb.DELETE), Verdict.STALE),
        (wanted(11), replace(HELD, verb=Verb.DELETE), Verdict.PUBLISH),
        # Epochs: nobody writes over a newer one; older versions count within what compares.
        (wanted(99), replace(HELD, epoch="e3"), Verdict.STALE),
        (wanted(9), replace(HELD, epoch="e1"), Verdict.STALE),
        (wanted(9), replace(HELD, epoch="e0"), Verdict.PUBLISH),
        (wanted(10), replace(HELD, epoch="e0"), Verdict.DONE),
        # The same version with other content: trimmed otherwise by another release.
        (wanted(10), replace(HELD, digest=b"other"), Verdict.PUBLISH),
        # Facts have no version: the content decides.
        (wanted(""), replace(HELD, resource_version=""), Verdict.DONE),
        (wanted(""), replace(HELD, resource_version="", digest=b"other"), Verdict.PUBLISH),
    ],
)
def test_verdicts(version: SourceVersion, held: StoredVersion | None, verdict: Verdict) -> None:
    assert judge(version, held, SCOPE) is verdict


def compare(
    present: list[SourceVersion], stored: dict[Key, StoredVersion], pending: dict[Key, SourceVersion] | None = None
) -> list[SourceVersion]:
    return differences(
        {version.key: version for version in present},
        stored,
        pending=pending or {},
        version="50",
        scope=SCOPE,
    )


def test_nothing_differs() -> None:
    assert compare([wanted(10)], {KEY: HELD}) == []


def test_what_the_stream_lacks_is_published() -> None:
    assert compare([wanted(10)], {}) == [wanted(10)]


def test_what_the_cluster_lacks_is_deleted_at_the_lists_version() -> None:
    assert compare([], {KEY: HELD}) == [SourceVersion.deletion(KEY, "u", "50")]
    assert compare([], {KEY: replace(HELD, verb=Verb.DELETE)}) == []


def test_what_is_under_way_is_not_published_twice() -> None:
    assert compare([wanted(12)], {KEY: HELD}, {KEY: wanted(12)}) == []
    assert compare([], {KEY: HELD}, {KEY: wanted(12, verb=Verb.DELETE)}) == []


def test_what_is_under_way_may_be_outdated() -> None:
    assert compare([wanted(13)], {KEY: HELD}, {KEY: wanted(12)}) == [wanted(13)]
    assert compare([], {}, {KEY: wanted(12)}) == [SourceVersion.deletion(KEY, "u", "50")]


def test_a_stream_ahead_of_a_living_object_means_that_the_cluster_went_back() -> None:
    assert is_ahead({KEY: HELD}, {KEY: wanted(9)}, SCOPE)
    assert not is_ahead({KEY: HELD}, {KEY: wanted(10)}, SCOPE)
    assert not is_ahead({KEY: replace(HELD, epoch="e0")}, {KEY: wanted(9)}, SCOPE)
    assert not is_ahead({KEY: HELD}, {}, SCOPE)


def test_the_newest_version_ignores_what_does_not_compare() -> None:
    assert newest_version([HELD, replace(HELD, epoch="e0", resource_version="99")], "e1") == 10
    assert newest_version([replace(HELD, resource_version="")], "e1") == 0
