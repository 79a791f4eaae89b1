"""What of a stream's configuration counts, and what is said of it."""

import pytest

from controller_runtime import JsonObject
from controller_runtime.log.broker.streams import (
    LIMITS,
    StreamFault,
    StreamLimits,
    decisions_config,
    history_config,
    state_config,
    stream_fault,
)
from controller_runtime.log.wire.subjects import Layout

LAYOUT = Layout()
STATE, HISTORY = state_config(LAYOUT, StreamLimits()), history_config(LAYOUT, StreamLimits())
OF_SERVER: JsonObject = {
    "compression": "none",
    "mirror_direct": False,
    "sealed": False,
    "allow_rollup_hdrs": False,
    "consumer_limits": {},
    "allow_msg_ttl": False,
    "metadata": {"_nats.ver": "2.15.1"},
}
"""What a server adds to a configuration that leaves it out."""


def found(changed: JsonObject, wanted: JsonObject = STATE) -> StreamFault | None:
    return stream_fault({**wanted, **OF_SERVER, **changed}, wanted, ("num_replicas",))


def fault(changed: JsonObject, wanted: JsonObject = STATE) -> StreamFault:
    one = found(changed, wanted)
    assert one is not None, changed
    return one


@pytest.mark.spec("FW-767")
@pytest.mark.parametrize("wanted", [STATE, HISTORY, decisions_config(LAYOUT, StreamLimits())])
def test_what_a_server_adds_and_an_operator_chooses_is_no_fault(wanted: JsonObject) -> None:
    assert found({}, wanted) is None
    chosen = {"description": "x", "placement": {"tags": ["ssd"]}, "compression": "s2", "metadata": {}, "first_seq": 9}
    assert found({**chosen, "num_replicas": 3, "persist_mode": "default"}, wanted) is None
    without = {key: value for key, value in wanted.items() if value not in (False, 0, -1)}
    assert stream_fault(without, wanted) is None, "a server may leave out what is false, zero or without a limit"


@pytest.mark.spec("FW-767")
@pytest.mark.parametrize(
    "changed",
    [
        {"republish": {"src": "aim.log.>", "dest": "aim.state.x.>"}},
        {"sources": [{"name": "OTHER"}]},
        {"mirror": {"name": "OTHER"}},
        {"sealed": True},
        {"max_msgs": 1},
        {"max_msg_size": 2000},
        {"max_msgs_per_subject": 5},
        {"max_age": 10**9},
        {"max_bytes": 1},
        {"storage": "memory"},
        {"retention": "interest"},
        {"discard": "new"},
        {"subjects": ["aim.state.>"]},
        {"subject_transform": {"src": "aim.log.>", "dest": "x.>"}},
        {"no_ack": True},
        {"deny_delete": True},
        {"subject_delete_marker_ttl": 10**9, "allow_msg_ttl": True},
        {"persist_mode": "async"},
    ],
)
def test_what_loses_hides_or_forges_messages_ends_the_vouching(changed: JsonObject) -> None:
    one = fault(changed)
    assert one.is_breaking
    assert set(one.differing) == set(changed)
    for key in changed:
        assert key in one.cause


@pytest.mark.spec("FW-767")
@pytest.mark.parametrize(
    "changed",
    [
        {"deny_purge": True},
        {"allow_direct": False},
        {"allow_rollup_hdrs": True},
        {"max_consumers": 3},
        {"duplicate_window": 10**9},
        {"consumer_limits": {"inactive_threshold": 5}},
        {"of_a_server_to_come": {"x": 1}},
    ],
)
def test_what_changes_no_message_is_named_and_keeps_nobody_from_going_on(changed: JsonObject) -> None:
    one = fault(changed)
    assert not one.is_breaking
    assert set(one.differing) == set(changed)


@pytest.mark.spec("FW-767")
def test_a_message_names_setting_both_values_and_a_command() -> None:
    assert str(fault({"max_msgs": 20, "republish": {"src": "a"}})) == (
        "stream AIM_STATE changed: max_msgs is 20, not unlimited, republish is {'src': 'a'}, not unset; serving "
        "repairs it; if this stays: kubectl get pods -A -l app.kubernetes.io/component=serving"
    )
    sealed = fault({"sealed": True, "discard": "new", "deny_delete": True, "deny_purge": True})
    assert str(sealed) == (
        "stream AIM_STATE changed: sealed is true, not unset; the broker never changes sealed back; serving re-creates "
        "the stream after: nats stream rm AIM_STATE --force"
    )


@pytest.mark.spec("FW-767")
def test_what_the_broker_never_changes_back_is_left_out_of_the_repair() -> None:
    both = fault({"deny_purge": True, "max_msgs": 1, "republish": {"src": "a"}}, HISTORY)
    assert both.final == ("deny_purge",)
    assert both.repair == {"max_msgs": -1, "republish": None}
    assert fault({"sealed": True, "discard": "new"}).repair == {}
    assert fault({"retention": "workqueue"}).final == ("retention",)
    assert fault({"retention": "interest"}).repair == {"retention": "limits"}
    assert not fault({"deny_delete": True}, HISTORY).is_breaking, "nothing ever leaves the past by its number"


@pytest.mark.spec("FW-448", "FW-767")
def test_limits_are_left_to_the_one_who_chooses_them() -> None:
    assert stream_fault({**HISTORY, "max_age": 1, "max_bytes": 2, "num_replicas": 3}, HISTORY, LIMITS) is None
