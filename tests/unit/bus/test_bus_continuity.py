"""Versions that follow a list with or without a gap."""

import pytest

from controller_runtime import Key
from controller_runtime.log.publish.intake import Continuity
from controller_runtime.log.publish.judgement import StoredVersion
from controller_runtime.log.publish.source import SourceVersion
from controller_runtime.log.wire.messages import Verb

KEY = Key("ns", "a")


def version(rv: int, verb: Verb = Verb.UPSERT, uid: str = "u") -> SourceVersion:
    if verb is Verb.DELETE:
        return SourceVersion.deletion(KEY, uid, str(rv))
    return SourceVersion.of(KEY, uid, str(rv), b"{}", "")


def held(rv: int, verb: Verb = Verb.UPSERT, uid: str = "u") -> dict[Key, StoredVersion]:
    return {KEY: StoredVersion(1, verb, "e", uid, str(rv), b"", 1)}


@pytest.mark.parametrize(
    ("listed", "waiting", "stored", "broken"),
    [
        (None, None, {}, False),
        (None, None, held(1, Verb.DELETE), False),
        (None, None, held(1), True),
        (version(2), None, held(2), False),
        (version(2), None, held(1), True),
        (version(2), None, held(2, uid="other"), True),
        (version(2), None, {}, True),
        (version(2), version(2), held(1), False),
        (version(2), version(1), held(1), True),
        (None, version(2, Verb.DELETE), held(1), False),
    ],
)
def test_a_change_after_a_list(
    listed: SourceVersion | None, waiting: SourceVersion | None, stored: dict[Key, StoredVersion], *, broken: bool
) -> None:
    followed = Continuity()
    followed.note_list()
    followed.note_change(KEY, listed, waiting)
    followed.note_change(KEY, version(8), version(8))
    assert followed.is_broken(stored) is broken
    followed.compared()
    assert not followed.is_broken({})


def test_what_comes_after_the_comparison_follows_upon_it() -> None:
    followed = Continuity()
    followed.note_list()
    followed.compared()
    followed.note_change(KEY, version(2), None)
    assert not followed.is_broken(held(1))


def test_a_second_list_may_fold_as_well() -> None:
    followed = Continuity()
    followed.note_list()
    followed.note_change(KEY, version(2), None)
    followed.note_list()
    assert not followed.is_broken(held(2))
    followed.note_change(KEY, version(5), version(3))
    assert followed.is_broken(held(2))
