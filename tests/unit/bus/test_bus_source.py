"""What a publisher keeps of what the watch told."""

import pytest

from aim_domain.parts import DISCOVERY_PODS
from controller_runtime import JsonObject, Key, loads
from controller_runtime.annotation_keys import TRACEPARENT
from controller_runtime.kube.reflector_state import Delete, Restarted, Upsert
from controller_runtime.log.publish.source import Source, published

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def pod(rv: int) -> JsonObject:
    return {
        "metadata": {
            "name": "p",
            "namespace": "ns",
            "uid": "u",
            "resourceVersion": str(rv),
            "annotations": {TRACEPARENT: TRACE},
            "managedFields": [{"manager": "kubelet"}],
        },
        "spec": {"containers": [{"name": "main", "image": "x"}]},
        "status": {"phase": "Running"},
    }


def test_only_what_is_published_is_kept_and_the_trace_survives() -> None:
    source, form = Source(DISCOVERY_PODS), published(DISCOVERY_PODS)
    source.take(Restarted((form(pod(1)),), "1"))
    listed = source.present[Key("ns", "p")]
    source.take(Upsert(form(pod(2)), "2"))
    changed = source.present[Key("ns", "p")]
    for version in (listed, changed):
        reported = loads(version.body)
        assert "containers" not in reported["spec"]
        assert reported["metadata"].keys() == {"name", "namespace", "uid", "resourceVersion"}
        assert version.traceparent == TRACE


@pytest.mark.spec("FW-487")
def test_the_version_of_a_list_counts_once_its_objects_are_there() -> None:
    """Whoever vouches in between would say of its changes that they lie before."""
    source, form = Source(DISCOVERY_PODS), published(DISCOVERY_PODS)
    source.take(Restarted((form(pod(1)),), "1"))
    assert source.take(Delete(pod(1), "9", synthetic=True)) is None
    assert source.version == "1"
    assert list(source.present) == [Key("ns", "p")]
    source.take(Restarted((), "9"))
    assert source.version == "9"
    assert not source.present
