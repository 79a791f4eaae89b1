"""Reading is lenient, writing is exact."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from aim_domain import AIMService, AIMServiceSpec, DownloadFilter
from aim_domain.api.enums import CachingMode
from aim_domain.api.service import ServiceModel
from aim_domain.kinds import AIM_ARTIFACT, AIM_SERVICE, AIM_SERVICE_TEMPLATE, KINDS, kind_for_model, kind_of
from controller_runtime import (
    Condition,
    ConditionStatus,
    Kind,
    ObjectKey,
    ObjectMeta,
    OwnerReference,
    find_condition,
    to_json,
)
from controller_runtime.core import Lease, LeaseSpec, Pod
from controller_runtime.kinds import EVENT, LEASE, POD, SECRET

IDENTITY = {"apiVersion": "aim.eai.amd.com/v1alpha1", "kind": "AIMService"}


def _service(**members: object) -> dict[str, Any]:
    return IDENTITY | {"metadata": {"name": "chat", "namespace": "team"}} | members


@pytest.mark.spec("CC-P07", "CC-013")
@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"env": None},
        {"env": []},
        {"replicas": 0},
        {"cacheModel": False},
        {"caching": {}},
        {"caching": None},
        {"runtimeConfigName": ""},
        {"storage": {"downloadFilter": {}}},
        {"storage": {"downloadFilter": {"include": []}}},
        {"routing": {"annotations": {}}},
        {"routing": {"annotations": None}},
        {"resources": {"limits": {"cpu": 4, "memory": "4Gi"}}},
        {"unknown": {"deep": [1, None, {"a": False}]}, "model": {"name": "m", "extra": 1.5}},
    ],
)
def test_what_was_read_is_written_back(spec: dict[str, Any]) -> None:
    for stored in (_service(spec=spec), _service(spec=spec, status={}), _service()):
        assert to_json(AIM_SERVICE.decode(stored)) == stored


@pytest.mark.spec("CC-013", "CC-038", "DI-031")
def test_free_form_json_is_untouched() -> None:
    profile = {
        "engine_args": {"a": {"b": None}, "list": [1, 1.5, "x", {}]},
        "env_vars": {"A": ""},
        "metadata": {"gpuCount": 8},
        "originalDiscoveryOutput": [None],
    }
    stored = {"apiVersion": "v", "kind": "K", "metadata": {"name": "t"}, "status": {"profile": profile}}
    template = AIM_SERVICE_TEMPLATE.decode(stored)
    assert to_json(template) == stored
    assert template.status.profile is not None
    assert template.status.profile.engine_args == profile["engine_args"]


@pytest.mark.spec("CC-013")
def test_absent_and_empty_can_be_reported_apart() -> None:
    absent = AIM_ARTIFACT.decode({"spec": {}}).spec
    assert (absent.download_filter, absent.has("download_filter")) == (None, False)
    assert AIM_ARTIFACT.decode({"spec": {"downloadFilter": {}}}).spec.download_filter == DownloadFilter()
    null = AIM_SERVICE.decode(_service(spec={"env": None})).spec
    assert (null.env, null.has("env")) == ((), True)


@pytest.mark.spec("CC-P06", "CC-013")
def test_only_what_code_sets_is_written() -> None:
    service = AIMService(
        metadata=ObjectMeta(name="chat", owner_references=(OwnerReference(kind="K", name="o", controller=True),)),
        spec=AIMServiceSpec(model=ServiceModel(image="i"), caching=None),
    )
    assert to_json(service) == IDENTITY | {
        "metadata": {"name": "chat", "ownerReferences": [{"kind": "K", "name": "o", "controller": True}]},
        "spec": {"model": {"image": "i"}, "caching": None},
    }


@pytest.mark.spec("CC-P09", "CC-014", "CC-P01", "CC-S35")
@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"spec": {}},
        {"spec": {"model": {"custom": {}}}},
        {"spec": {"caching": {"mode": "Sometimes"}}},
        {"spec": {"minReplicas": -3, "routing": {"requestTimeout": "soon", "gatewayRef": {"port": 0}}}},
        {"spec": {"overrides": {"metric": "", "hardware": {"gpu": {"minVram": "lots", "requests": -1}}}}},
        {"status": {"status": "NotAvailable", "conditions": [{"type": "Ready"}, {"status": "Perhaps"}]}},
    ],
)
def test_objects_that_break_newer_rules_are_readable(stored: dict[str, Any]) -> None:
    assert to_json(AIM_SERVICE.decode(_service(**stored))) == _service(**stored)


@pytest.mark.spec("CC-312")
def test_another_json_type_is_an_error_that_names_the_field() -> None:
    with pytest.raises(ValidationError, match=r"spec\.replicas"):
        AIM_SERVICE.decode(_service(spec={"replicas": "many"}))


@pytest.mark.spec("CC-014")
def test_enumerations_are_open_for_reading() -> None:
    service = AIM_SERVICE.decode(_service(spec={"caching": {"mode": "Sometimes"}}))
    assert service.spec.caching is not None
    mode = service.spec.caching.mode
    assert isinstance(mode, CachingMode)
    assert (mode, mode.known, mode.value) == ("Sometimes", False, "Sometimes")
    assert mode not in list(CachingMode)
    assert CachingMode("Shared") is CachingMode.SHARED


@pytest.mark.spec("CC-152", "CC-153")
def test_absent_objects_read_like_their_defaults() -> None:
    service = AIM_SERVICE.decode(_service())
    assert (service.spec.replicas, service.status.status) == (1, "Pending")
    assert (service.has("spec"), service.has("status")) == (False, False)


def test_values_can_not_be_changed() -> None:
    attribute = "replicas"
    with pytest.raises(ValidationError, match="frozen"):
        setattr(AIM_SERVICE.decode(_service()).spec, attribute, 2)


def test_key_and_deletion() -> None:
    service = AIM_SERVICE.decode(_service())
    assert (service.key, str(service.key), service.deleting) == (("team", "chat"), "team/chat", False)
    assert str(ObjectKey("", "cluster")) == "cluster"
    deleted = AIM_SERVICE.decode({"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}})
    assert deleted.metadata.deletion_timestamp == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert deleted.deleting


def test_conditions_are_found_by_type() -> None:
    ready = Condition(type="Ready", status=ConditionStatus.TRUE)
    assert find_condition((Condition(type="Other"), ready), "Ready") is ready
    assert find_condition((), "Ready") is None


def test_lease_times_have_six_decimals() -> None:
    lease = Lease(spec=LeaseSpec(renew_time=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)))
    written = to_json(lease)
    assert written["spec"] == {"renewTime": "2026-01-02T03:04:05.000000Z"}
    assert to_json(LEASE.decode(written)) == written


def test_secrets_decode_and_stay_out_of_logs() -> None:
    secret = SECRET.decode({"data": {"token": "c2VjcmV0"}})
    assert (secret.value("token"), secret.value("other")) == (b"secret", None)
    assert "c2VjcmV0" not in repr(secret)


@pytest.mark.spec("FW-140", "FW-145", "FW-157")
def test_a_pod_as_the_cluster_reports_it() -> None:
    stored: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"job-name": "j"}},
        "spec": {
            "volumes": [{"name": "m", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "e", "emptyDir": {}}]
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "False", "lastProbeTime": None}],
            "containerStatuses": [
                {
                    "name": "main",
                    "restartCount": 3,
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "containerID": "x"}},
                }
            ],
        },
    }
    pod: Pod = POD.decode(stored)
    [container] = pod.status.container_statuses
    assert container.state.waiting is not None
    assert container.last_state.terminated is not None
    assert (container.state.waiting.reason, container.last_state.terminated.exit_code) == ("CrashLoopBackOff", 137)
    claims = [volume.persistent_volume_claim for volume in pod.spec.volumes]
    assert [claim.claim_name if claim else None for claim in claims] == ["c", None]
    assert to_json(pod) == stored


@pytest.mark.spec("SV-195")
def test_when_an_event_was_last_seen() -> None:
    day = "2026-01-02T03:04:05Z"
    for member in ({"lastTimestamp": day}, {"eventTime": day}, {"series": {"count": 2, "lastObservedTime": day}}):
        event = EVENT.decode(
            {"metadata": {"creationTimestamp": "2025-01-01T00:00:00Z"}, "firstTimestamp": None} | member
        )
        assert event.last_seen == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.spec("CC-001")
def test_table_of_kinds() -> None:
    assert len({kind.resource for kind in KINDS}) == len(KINDS)
    assert kind_of("aim.eai.amd.com/v1alpha1", "AIMService") is AIM_SERVICE
    assert kind_of("v1", "AIMService") is None
    assert kind_for_model(Pod) is POD


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_models_name_their_kind(kind: Kind[Any]) -> None:
    assert to_json(kind.model()) == {"apiVersion": kind.api_version, "kind": kind.kind}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.spec("CC-013")
@given(st.dictionaries(st.from_regex(r"unknown[a-z]{1,5}", fullmatch=True), _JSON))
def test_unknown_members_survive(unknown: dict[str, Any]) -> None:
    stored = _service(spec={"model": {"name": "m"} | unknown} | unknown, **unknown)
    assert to_json(AIM_SERVICE.decode(stored)) == stored
