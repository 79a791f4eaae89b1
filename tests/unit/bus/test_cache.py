"""The cache takes in versions, deletions, snapshots and own writes without ever going backwards."""

from collections.abc import Sequence
from typing import Any

import pytest
from support.cache_objects import by_owner, colour_index, entry_of, widget, widgets

from controller_runtime import Cache, Change, Key, Part, Resource, scoped
from controller_runtime.log.cache.store import DELETED_MEMORY_SECONDS, OWN_WRITE_SECONDS
from controller_runtime.log.wire.subjects import FACTS_PART
from controller_runtime.log.wire.version import CachePosition, Entry, OwnChange, Position, Version

A = Key("ns", "a")


@pytest.fixture
def part() -> Part[Resource]:
    return widgets()


@pytest.fixture
def cache(part: Part[Resource]) -> Cache:
    return Cache([part], [colour_index(part), by_owner(part)])


def verbs(changes: Sequence[Change[Any]]) -> list[str]:
    return ["created" if c.old is None else "deleted" if c.new is None else "changed" for c in changes]


def known(cache: Cache, part: Part[Resource]) -> Entry[Resource]:
    entry = cache.get(part, A)
    assert entry is not None
    return entry


def names(cache: Cache, part: Part[Resource]) -> dict[str, str]:
    return {str(entry.key): entry.version.resource_version for entry in cache.all(part)}


def test_a_version_creates_and_changes(cache: Cache, part: Part[Resource]) -> None:
    assert verbs(cache.put(entry_of(part, widget("a", rv=1), 1), 0)) == ["created"]
    (change,) = cache.put(entry_of(part, widget("a", rv=2, spec=1), 2), 0)
    assert change.old is not None
    assert change.new is not None
    assert change.before is not None
    assert change.after is not None
    assert (change.old.version.sequence, change.new.version.sequence) == (1, 2)
    assert change.before.metadata.resource_version == "1"
    assert change.after.metadata.resource_version == "2"


@pytest.mark.spec("FW-414")
def test_a_snapshot_does_not_touch_what_came_after_it(cache: Cache, part: Part[Resource]) -> None:
    """Someone writes; an empty snapshot is taken; the feed tells of the object; then the snapshot is swapped in."""
    taken_at = Version("", "", 0, "e1", "e1")
    reported = entry_of(part, widget("a", rv=1), 1, "e1", "e1")
    cache.put(reported, 0)
    assert cache.replace(part, {}, 0, upto=taken_at) == []
    assert cache.get(part, A) is reported
    cache.put(reported, 0)
    assert names(cache, part) == {"ns/a": "1"}
    assert verbs(cache.replace(part, {}, 0, upto=Version("", "", 2, "e1", "e1"))) == ["deleted"]


@pytest.mark.spec("FW-016", "FW-408")
def test_an_older_version_of_the_same_object_is_dropped(cache: Cache, part: Part[Resource]) -> None:
    cache.put(entry_of(part, widget("a", rv=10), 5), 0)
    assert cache.put(entry_of(part, widget("a", rv=9), 4), 0) == []
    assert names(cache, part) == {"ns/a": "10"}


@pytest.mark.spec("FW-408")
def test_a_lower_version_of_a_new_epoch_replaces(cache: Cache, part: Part[Resource]) -> None:
    cache.put(entry_of(part, widget("a", rv=100), 50), 0)
    assert verbs(cache.put(entry_of(part, widget("a", rv=7, spec=1), 3, "e2"), 0)) == ["changed"]
    assert names(cache, part) == {"ns/a": "7"}


@pytest.mark.spec("FW-408")
def test_versions_compare_across_epochs_of_one_era(cache: Cache, part: Part[Resource]) -> None:
    # A publisher that takes over starts an epoch; the cluster's store is the same.
    cache.mark(part, epoch="e1", store_id="e1")
    cache.absorb(part, widget("a", rv=9, spec=2), 0)
    assert cache.put(entry_of(part, widget("a", rv=7, spec=1), 4, "e2", "e1"), 0) == []
    assert cache.put(entry_of(part, widget("a", rv=9, spec=2), 5, "e2", "e1"), 0) == []
    assert known(cache, part).version == Version("u1", "9", 5, "e2")
    assert verbs(cache.put(entry_of(part, widget("a", rv=3, spec=0), 1, "e3", "e3"), 0)) == ["changed"]


def test_a_change_of_the_resource_version_alone_is_no_change(cache: Cache, part: Part[Resource]) -> None:
    cache.put(entry_of(part, widget("a", rv=1), 1), 0)
    assert cache.put(entry_of(part, widget("a", rv=2), 2), 0) == []
    assert names(cache, part) == {"ns/a": "2"}


def test_the_same_version_published_again_brings_its_new_sequence(cache: Cache, part: Part[Resource]) -> None:
    cache.put(entry_of(part, widget("a", rv=1), 4), 0)
    assert cache.put(entry_of(part, widget("a", rv=1), 9), 0) == []
    assert known(cache, part).version.sequence == 9
    cache.put(entry_of(part, widget("a", rv=1), 4), 0)
    assert known(cache, part).version.sequence == 9


def test_another_uid_is_a_deletion_and_a_creation(cache: Cache, part: Part[Resource]) -> None:
    cache.put(entry_of(part, widget("a", "u1", 5), 1), 0)
    assert verbs(cache.put(entry_of(part, widget("a", "u2", 7), 3), 0)) == ["deleted", "created"]
    assert cache.put(entry_of(part, widget("a", "u1", 6), 2), 0) == []
    assert known(cache, part).version.uid == "u2"


@pytest.mark.spec("FW-486")
def test_a_uid_that_was_replaced_comes_back_by_a_later_word_of_the_bus_alone(
    cache: Cache, part: Part[Resource]
) -> None:
    """Another client put a message of another UID in the place of a publisher's, and the publisher repaired it."""
    real = entry_of(part, widget("a", "real", 5), 1)
    cache.put(real, 0)
    cache.put(entry_of(part, widget("a", "forged", 5), 3), 0)
    assert cache.absorb(part, widget("a", "real", 6), 0) == []
    assert cache.replace(part, {A: real}, 0, upto=Version("", "5", 2, "e1")) == []
    assert known(cache, part).version.uid == "forged"
    assert verbs(cache.put(entry_of(part, widget("a", "real", 5), 4), 0)) == ["deleted", "created"]
    cache.put(entry_of(part, widget("a", "forged", 5), 5), 0)
    cache.replace(part, {A: entry_of(part, widget("a", "real", 5), 2, "e2")}, 0)
    assert known(cache, part).version.uid == "real"


class TestDeletion:
    def test_it_drops_the_object_and_a_late_message_can_not_bring_it_back(
        self, cache: Cache, part: Part[Resource]
    ) -> None:
        cache.put(entry_of(part, widget("a", rv=5), 1), 0)
        assert verbs(cache.delete(part, A, Version("u1", "8", 3, "e1"), 0)) == ["deleted"]
        assert cache.put(entry_of(part, widget("a", rv=7), 2), 10) == []
        assert cache.put(entry_of(part, widget("a", rv=5), 1), 10) == []
        assert names(cache, part) == {}

    def test_an_older_deletion_is_ignored(self, cache: Cache, part: Part[Resource]) -> None:
        cache.put(entry_of(part, widget("a", rv=9), 4), 0)
        assert cache.delete(part, A, Version("u1", "8", 3, "e1"), 0) == []

    def test_an_object_that_entered_the_selection_again_comes_back(self, cache: Cache, part: Part[Resource]) -> None:
        cache.put(entry_of(part, widget("a", rv=5), 1), 0)
        cache.delete(part, A, Version("u1", "8", 3, "e1"), 0)
        assert verbs(cache.put(entry_of(part, widget("a", rv=9), 4), 10)) == ["created"]

    def test_a_namesake_may_be_created(self, cache: Cache, part: Part[Resource]) -> None:
        cache.put(entry_of(part, widget("a", rv=5), 1), 0)
        cache.delete(part, A, Version("u1", "8", 3, "e1"), 0)
        assert verbs(cache.put(entry_of(part, widget("a", "u2", 9), 4), 10)) == ["created"]

    def test_a_tombstone_of_a_namesake_that_came_and_went_unseen_deletes(
        self, cache: Cache, part: Part[Resource]
    ) -> None:
        # One message per subject: the end of u1 and the whole life of u2 but its tombstone were conflated.
        cache.put(entry_of(part, widget("a", "u1", 5), 1), 0)
        assert verbs(cache.delete(part, A, Version("u2", "9", 6, "e1"), 0)) == ["deleted"]
        assert cache.put(entry_of(part, widget("a", "u1", 6), 2), 0) == []

    def test_a_late_tombstone_of_a_predecessor_is_ignored(self, cache: Cache, part: Part[Resource]) -> None:
        cache.put(entry_of(part, widget("a", "u2", 9), 6), 0)
        assert cache.delete(part, A, Version("u1", "8", 5, "e1"), 0) == []
        assert names(cache, part) == {"ns/a": "9"}

    def test_the_memory_lasts_an_hour(self, cache: Cache, part: Part[Resource]) -> None:
        cache.put(entry_of(part, widget("a", rv=5), 1), 0)
        cache.delete(part, A, Version("u1", "8", 3, "e1"), 0)
        cache.forget_deleted(DELETED_MEMORY_SECONDS - 1)
        assert cache.put(entry_of(part, widget("a", rv=7), 2), DELETED_MEMORY_SECONDS - 1) == []
        cache.forget_deleted(DELETED_MEMORY_SECONDS)
        assert verbs(cache.put(entry_of(part, widget("a", rv=7), 2), DELETED_MEMORY_SECONDS)) == ["created"]

    def test_a_repair_of_a_lost_message_brings_the_object_back(self, cache: Cache, part: Part[Resource]) -> None:
        # The stream lost the object, a new consumer saw it absent, then the publisher repaired it.
        cache.put(entry_of(part, widget("a", rv=5), 1), 0)
        cache.replace(part, {}, 0)
        assert verbs(cache.put(entry_of(part, widget("a", rv=5), 7), 1)) == ["created"]


class TestSnapshot:
    def test_absent_keys_are_deletions(self, cache: Cache, part: Part[Resource]) -> None:
        cache.put(entry_of(part, widget("a"), 1), 0)
        cache.put(entry_of(part, widget("b", "u2"), 2), 0)
        changes = cache.replace(part, {A: entry_of(part, widget("a"), 1)}, 0)
        assert verbs(changes) == ["deleted"]
        assert names(cache, part) == {"ns/a": "1"}

    def test_an_unchanged_snapshot_is_silent(self, cache: Cache, part: Part[Resource]) -> None:
        cache.put(entry_of(part, widget("a", rv=3), 1), 0)
        assert cache.replace(part, {A: entry_of(part, widget("a", rv=3), None)}, 0) == []
        assert known(cache, part).version.sequence == 1

    @pytest.mark.spec("FW-408")
    def test_a_snapshot_of_a_new_epoch_wins_even_with_lower_versions(self, cache: Cache, part: Part[Resource]) -> None:
        cache.put(entry_of(part, widget("a", rv=30, spec=1), 9), 0)
        assert verbs(cache.replace(part, {A: entry_of(part, widget("a", rv=3), 1, "e2")}, 0)) == ["changed"]

    def test_it_does_not_revive_what_a_tombstone_ended(self, cache: Cache, part: Part[Resource]) -> None:
        cache.put(entry_of(part, widget("a", rv=5), 1), 0)
        cache.delete(part, A, Version("u1", "8", 3, "e1"), 0)
        assert cache.replace(part, {A: entry_of(part, widget("a", rv=5), 1)}, 1) == []


class TestOwnWrites:
    def test_the_answer_enters_at_once_and_its_echo_is_silent(self, cache: Cache, part: Part[Resource]) -> None:
        cache.put(entry_of(part, widget("a", rv=5), 1), 0)
        assert verbs(cache.absorb(part, widget("a", rv=6, spec=2), 0)) == ["changed"]
        assert cache.put(entry_of(part, widget("a", rv=5), 1), 0) == []
        assert cache.put(entry_of(part, widget("a", rv=6, spec=2), 2), 0) == []
        assert known(cache, part).version.sequence == 2

    def test_the_answer_is_trimmed_like_a_published_version(self, cache: Cache, part: Part[Resource]) -> None:
        answer = widget("a", rv=6)
        last_applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
        answer["metadata"] |= {"managedFields": [{}], "annotations": last_applied}
        cache.absorb(part, answer, 0)
        assert known(cache, part).raw == widget("a", rv=6)
        assert "managedFields" in answer["metadata"]

    def test_a_message_between_the_own_write_and_its_echo_is_older(self, cache: Cache, part: Part[Resource]) -> None:
        cache.put(entry_of(part, widget("a", rv=5), 1), 0)
        cache.absorb(part, widget("a", rv=9, spec=2), 0)
        assert cache.put(entry_of(part, widget("a", rv=7, spec=1), 2), 0) == []

    def test_an_answer_that_changed_nothing_keeps_the_sequence(self, cache: Cache, part: Part[Resource]) -> None:
        cache.put(entry_of(part, widget("a", rv=5), 1), 0)
        assert cache.absorb(part, widget("a", rv=5), 0) == []
        assert known(cache, part).version.sequence == 1
        assert not cache.unconfirmed(part, OWN_WRITE_SECONDS)

    def test_a_snapshot_made_before_the_own_creation_does_not_remove_it(
        self, cache: Cache, part: Part[Resource]
    ) -> None:
        cache.absorb(part, widget("a", rv=5), 0)
        assert cache.replace(part, {}, OWN_WRITE_SECONDS - 1) == []
        assert cache.unconfirmed(part, OWN_WRITE_SECONDS)
        assert verbs(cache.replace(part, {}, OWN_WRITE_SECONDS)) == ["deleted"]

    def test_an_own_write_that_the_feed_has_passed_in_silence_is_gone_again(
        self, cache: Cache, part: Part[Resource]
    ) -> None:
        cache.put(entry_of(part, widget("b", "u2", 3), 1), 0)
        cache.absorb(part, widget("a", rv=5), 0)
        assert cache.confirm(part, Version("", "4", None, "e1"), 1) == []
        assert cache.confirm(part, Version("", "9", None, "another"), 1) == []
        assert verbs(cache.confirm(part, Version("", "5", None, "e1"), 1)) == ["deleted"]
        assert [entry.key.name for entry in cache.all(part)] == ["b"]

    def test_a_late_version_of_the_object_before_an_own_creation_does_not_confirm_it(
        self, cache: Cache, part: Part[Resource]
    ) -> None:
        """What was deleted before the feed came to it would stay in the cache until the next snapshot (FW-408)."""
        cache.put(entry_of(part, widget("a", "u1", 1), 1), 0)
        cache.absorb(part, widget("a", "u2", 3), 0)
        assert cache.put(entry_of(part, widget("a", "u1", 1), 1), 0) == []
        assert verbs(cache.confirm(part, Version("", "4", None, "e1"), 1)) == ["deleted"]

    def test_a_snapshot_that_has_to_know_an_own_write_and_does_not_removes_it(
        self, cache: Cache, part: Part[Resource]
    ) -> None:
        cache.put(entry_of(part, widget("b", "u2", 3), 1), 0)
        kept = {Key("ns", "b"): entry_of(part, widget("b", "u2", 3), 1)}
        cache.absorb(part, widget("a", rv=5), 0)
        assert cache.replace(part, kept, 1, upto=Version("", "4", None, "e1")) == []
        assert verbs(cache.replace(part, kept, 1, upto=Version("", "5", None, "e1"))) == ["deleted"]

    def test_the_echo_confirms(self, cache: Cache, part: Part[Resource]) -> None:
        cache.absorb(part, widget("a", rv=5), 0)
        cache.put(entry_of(part, widget("a", rv=5), None, ""), 1)
        assert not cache.unconfirmed(part, OWN_WRITE_SECONDS)

    def test_an_own_deletion_is_final(self, cache: Cache, part: Part[Resource]) -> None:
        cache.put(entry_of(part, widget("a", rv=5), 1), 0)
        assert verbs(cache.absorb_deleted(part, A, "u1", 0)) == ["deleted"]
        assert cache.put(entry_of(part, widget("a", rv=7), 2), 1) == []
        assert cache.replace(part, {A: entry_of(part, widget("a", rv=7), 2)}, 1) == []

    def test_a_recreated_child_is_not_replaced_by_late_news_of_its_predecessor(
        self, cache: Cache, part: Part[Resource]
    ) -> None:
        cache.put(entry_of(part, widget("a", "u1", 5), 1), 0)
        cache.absorb(part, widget("a", "u2", 9), 0)
        assert cache.put(entry_of(part, widget("a", "u1", 7), 2), 0) == []
        assert cache.delete(part, A, Version("u1", "8", 3, "e1"), 0) == []
        assert cache.put(entry_of(part, widget("a", "u2", 9), 4), 0) == []
        assert known(cache, part).version == Version("u2", "9", 4, "e1")

    def test_a_late_answer_that_displaced_a_living_namesake_is_undone_by_the_next_snapshot(
        self, cache: Cache, part: Part[Resource]
    ) -> None:
        living = entry_of(part, widget("a", "u2", 9), 4)
        cache.put(living, 0)
        cache.absorb(part, widget("a", "u1", 5), 0)
        assert cache.unconfirmed(part, OWN_WRITE_SECONDS)
        cache.replace(part, {A: living}, OWN_WRITE_SECONDS)
        assert known(cache, part).version.uid == "u2"


class TestLocalFacts:
    """What has neither resource version nor sequence: a fact that could not be published yet (FW-402)."""

    @staticmethod
    def fact(part: Part[Resource], value: int, sequence: int | None) -> Entry[Resource]:
        fact = widget("a", "", 0, outcome=value)
        fact["metadata"].pop("resourceVersion")
        return Entry.of(part, A, fact, Version("", "", sequence, "e1"))

    def test_they_replace_each_other_and_survive_snapshots(self, cache: Cache, part: Part[Resource]) -> None:
        cache.put(self.fact(part, 1, 4), 0)
        for value in (2, 3):
            assert verbs(cache.absorb(part, self.fact(part, value, None).raw, 0)) == ["changed"]
        assert cache.replace(part, {A: self.fact(part, 1, 4)}, 9999) == []
        assert not cache.unconfirmed(part, 9999)
        assert verbs(cache.put(self.fact(part, 4, 5), 9999)) == ["changed"]

    def test_a_checkpoint_that_comes_before_them_does_not_remove_them(self, cache: Cache, part: Part[Resource]) -> None:
        cache.put(self.fact(part, 1, 4), 0)
        cache.absorb(part, self.fact(part, 2, None).raw, 0)
        assert cache.confirm(part, Version("", "", None, "e1"), 1) == []
        assert known(cache, part).raw["outcome"] == 2

    def test_a_fact_gathered_again_outlives_the_late_word_of_its_removal(self) -> None:
        facts = widgets(FACTS_PART)
        cache = Cache([facts])
        cache.put(self.fact(facts, 1, 4), 0)
        cache.absorb_deleted(facts, A, "", 0)
        cache.absorb(facts, self.fact(facts, 2, None).raw, 0)
        assert cache.delete(facts, A, Version("", "", 5, "e1"), 1) == []
        assert known(cache, facts).raw["outcome"] == 2
        assert cache.put(self.fact(facts, 2, 6), 2) == []
        assert known(cache, facts).version.sequence == 6

    def test_a_fact_that_was_removed_may_be_gathered_again(self) -> None:
        facts = widgets(FACTS_PART)
        cache = Cache([facts])
        for sequence in (4, None):
            cache.put(self.fact(facts, 1, sequence), 0)
            assert verbs(cache.absorb_deleted(facts, A, "", 1)) == ["deleted"]
            assert verbs(cache.absorb(facts, self.fact(facts, 2, None).raw, 2)) == ["created"]
            assert cache.put(self.fact(facts, 2, 6 + (sequence or 0)), 3) == []
            cache.delete(facts, A, Version("", "", 20, "e1"), 4)
            assert cache.put(self.fact(facts, 1, 19), 5) == []
            cache = Cache([facts])

    def test_published_facts_are_ordered_by_sequence(self, cache: Cache, part: Part[Resource]) -> None:
        cache.put(self.fact(part, 1, 4), 0)
        assert cache.put(self.fact(part, 0, 3), 0) == []
        assert verbs(cache.put(self.fact(part, 2, 5), 0)) == ["changed"]


def test_indexes_follow(cache: Cache, part: Part[Resource]) -> None:
    colour = colour_index(part)
    owner = by_owner(part)
    cache.put(entry_of(part, widget("a", rv=1, labels={"colour": "red"}, owner="o1"), 1), 0)
    assert [e.key for e in cache.select(colour, scoped("ns", "red"))] == [A]
    cache.put(entry_of(part, widget("a", rv=2, labels={"colour": "blue"}, owner="o1"), 2), 0)
    assert cache.select(colour, scoped("ns", "red")) == []
    assert [e.key for e in cache.select(colour, scoped("ns", "blue"))] == [A]
    assert [e.key for e in cache.select(owner, scoped("ns", "o1"))] == [A]
    cache.delete(part, A, Version("u1", "3", 3, "e1"), 0)
    assert cache.select(owner, scoped("ns", "o1")) == []


def test_an_object_that_can_not_be_decoded_is_kept_and_found_by_name_only(cache: Cache, part: Part[Resource]) -> None:
    cache.put(entry_of(part, widget("a", labels={"colour": 7}), 1), 0)
    cache.put(entry_of(part, widget("b", "u2", labels={"colour": "red"}), 2), 0)
    entry = cache.get(part, A)
    assert entry is not None
    assert entry.object is None
    assert [e.key.name for e in cache.select(colour_index(part), scoped("ns", "red"))] == ["b"]


@pytest.mark.spec("FW-019")
def test_fresh_needs_synced(cache: Cache, part: Part[Resource]) -> None:
    cache.mark(part, fresh=True)
    assert not cache.is_fresh(part)
    cache.mark(part, synced=True)
    assert cache.is_fresh(part)
    cache.mark(part, fresh=False)
    assert cache.is_synced(part)
    assert not cache.is_fresh(part)


MARKED = Version("", "120", None, "e1", "e1")


@pytest.mark.spec("FW-401", "FW-408")
def test_what_was_seen_directly_outlives_a_snapshot_that_is_behind(cache: Cache, part: Part[Resource]) -> None:
    cache.mark(part, synced=True, fresh=True, epoch="e1", store_id="e1")
    cache.put(entry_of(part, widget("a", rv=130), None, "e1", "e1"), 0)
    cache.put(entry_of(part, widget("b", "u2", rv=110), None, "e1", "e1"), 0)
    assert verbs(cache.replace(part, {}, 1, upto=MARKED)) == ["deleted"]
    assert names(cache, part) == {"ns/a": "130"}
    # The publisher comes to it: from now on the feed has the word.
    cache.put(entry_of(part, widget("a", rv=130), 9, "e1", "e1"), 2)
    assert verbs(cache.replace(part, {}, 3, upto=MARKED)) == ["deleted"]


@pytest.mark.spec("FW-401", "FW-408")
def test_what_no_publisher_ever_confirms_goes_after_a_minute(cache: Cache, part: Part[Resource]) -> None:
    cache.mark(part, synced=True, fresh=True, epoch="e1", store_id="e1")
    cache.put(entry_of(part, widget("a", rv=130), None, "e1", "e1"), 0)
    cache.replace(part, {}, 1, upto=MARKED)
    assert not cache.unconfirmed(part, 1 + OWN_WRITE_SECONDS - 0.1)
    assert cache.unconfirmed(part, 1 + OWN_WRITE_SECONDS)
    assert verbs(cache.replace(part, {}, 1 + OWN_WRITE_SECONDS, upto=MARKED)) == ["deleted"]


@pytest.mark.spec("FW-401", "FW-408")
def test_a_snapshot_does_not_bring_back_the_namesake_of_what_was_seen_directly(
    cache: Cache, part: Part[Resource]
) -> None:
    cache.put(entry_of(part, widget("a", "new", rv=130), None, "e1", "e1"), 0)
    old = entry_of(part, widget("a", "old", rv=100), 5, "e1", "e1")
    assert cache.replace(part, {A: old}, 1, upto=MARKED) == []
    newest = entry_of(part, widget("a", "newest", rv=140), 6, "e1", "e1")
    assert verbs(cache.replace(part, {A: newest}, 2, upto=MARKED)) == ["deleted", "created"]


@pytest.mark.spec("FW-408")
def test_what_does_not_compare_with_the_checkpoint_goes_with_the_snapshot(cache: Cache, part: Part[Resource]) -> None:
    cache.put(entry_of(part, widget("a", rv=130), None, "direct-1"), 0)
    assert verbs(cache.replace(part, {}, 1, upto=MARKED)) == ["deleted"]


@pytest.mark.spec("FW-435")
def test_a_cache_tells_how_far_it_is(cache: Cache, part: Part[Resource]) -> None:
    cache.put(entry_of(part, widget("a", rv=1), 5), 0)
    cache.reached(part, 7)
    cache.mark(part, synced=True, fresh=True)
    assert cache.position() == CachePosition({part.name: Position("e1", 7, 1)})
    cache.reached(part, None)
    cache.mark(part, fresh=False)
    assert cache.position() == CachePosition({part.name: Position("e1", None, 1)}, (), (part.name,))


@pytest.mark.spec("FW-435")
def test_own_writes_count_apart_until_the_feed_has_them(cache: Cache, part: Part[Resource]) -> None:
    cache.put(entry_of(part, widget("b", "u2", rv=1), 1), 0)
    cache.absorb(part, widget("a", rv=2), 0)
    cache.absorb_deleted(part, Key("ns", "b"), "u2", 0)
    assert cache.position().own == (
        OwnChange(part.name, A, Version("u1", "2", None, "e1")),
        OwnChange(part.name, Key("ns", "b"), None),
    )
    cache.put(entry_of(part, widget("a", rv=2), 2), 0)
    assert cache.position().own == (OwnChange(part.name, Key("ns", "b"), None),)
    # A late message of what was removed does not count as news of the removal.
    cache.put(entry_of(part, widget("b", "u2", rv=1), 3), 0)
    assert cache.position().own == (OwnChange(part.name, Key("ns", "b"), None),)
    cache.delete(part, Key("ns", "b"), Version("u2", "4", 4, "e1"), 0)
    assert cache.position().own == ()


@pytest.mark.spec("FW-435")
def test_an_own_deletion_of_which_the_bus_never_tells_is_forgotten(cache: Cache, part: Part[Resource]) -> None:
    cache.put(entry_of(part, widget("a", rv=1), 1), 0)
    cache.absorb_deleted(part, A, "u1", 1)
    cache.forget_deleted(OWN_WRITE_SECONDS)
    assert len(cache.position().own) == 1
    cache.forget_deleted(OWN_WRITE_SECONDS + 1)
    assert cache.position().own == ()
