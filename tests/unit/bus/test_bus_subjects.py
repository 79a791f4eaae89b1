"""Subjects of the bus, both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_runtime import Key
from controller_runtime.log.wire.subjects import DEFAULT_LAYOUT, Layout, SubjectError, decode_token, encode_token


def test_a_namespaced_object() -> None:
    subject = DEFAULT_LAYOUT.state("aimservices", Key("ml", "chat.v1"))
    assert subject == "aim.state.aimservices.ml.chat_v1"
    assert DEFAULT_LAYOUT.parse_state(subject) == ("aimservices", Key("ml", "chat.v1"))


def test_a_cluster_scoped_object_has_a_hyphen_for_its_namespace() -> None:
    subject = DEFAULT_LAYOUT.log("nodes", Key("", "gpu-1.example.org"))
    assert subject == "aim.log.nodes.-.gpu-1_example_org"
    assert DEFAULT_LAYOUT.parse_log(subject) == ("nodes", Key("", "gpu-1.example.org"))


def test_a_fact_has_its_service_for_a_namespace() -> None:
    assert DEFAULT_LAYOUT.state("facts", Key("model-sync", "tags-01ab")) == "aim.state.facts.model-sync.tags-01ab"
    assert DEFAULT_LAYOUT.sync("facts", "model-sync") == "aim.sync.facts.model-sync"
    assert DEFAULT_LAYOUT.state_filter("facts", "model-sync") == "aim.state.facts.model-sync.>"


def test_a_decision_tells_service_part_and_object() -> None:
    subject = DEFAULT_LAYOUT.decision("serving", "aimservices", Key("ml", "chat"))
    assert subject == "aim.decision.serving.aimservices.ml.chat"
    assert DEFAULT_LAYOUT.parse_decision(subject) == ("serving", "aimservices", Key("ml", "chat"))


@pytest.mark.spec("FW-626")
@pytest.mark.parametrize(("namespace", "scope"), [("ml", "ml"), ("", "-")])
def test_versions_of_a_namespace_are_those_of_all_parts(namespace: str, scope: str) -> None:
    assert DEFAULT_LAYOUT.log_within(namespace) == f"aim.log.*.{scope}.*"


def test_streams_are_called_after_the_root() -> None:
    streams = (DEFAULT_LAYOUT.state_stream, DEFAULT_LAYOUT.history_stream, DEFAULT_LAYOUT.decisions_stream)
    assert streams == ("AIM_STATE", "AIM_HISTORY", "AIM_DECISIONS")
    assert Layout("t1").state_stream == "T1_STATE"


def test_wildcards_and_separators_never_reach_a_subject() -> None:
    assert encode_token("a:b_c*>d e") == "a%3Ab%5Fc%2A%3Ed%20e"


@given(st.text(alphabet=st.characters(exclude_characters="%", exclude_categories=["Cs"]), min_size=1))
def test_every_name_comes_back(name: str) -> None:
    token = encode_token(name)
    assert not set(token) & set(".*> \t")
    assert decode_token(token) == name


@pytest.mark.parametrize(
    "subject",
    [
        "",
        "aim",
        "aim.state.pods.ns",
        "aim.state.pods.ns.a.b",
        "aim.log.pods.ns.a",
        "other.state.pods.ns.a",
        "aim.state..ns.a",
    ],
)
def test_other_subjects_are_refused(subject: str) -> None:
    with pytest.raises(SubjectError):
        DEFAULT_LAYOUT.parse_state(subject)


def test_other_decision_subjects_are_refused() -> None:
    with pytest.raises(SubjectError):
        DEFAULT_LAYOUT.parse_decision("aim.log.pods.ns.a")
