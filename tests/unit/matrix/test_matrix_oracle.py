"""Two runs of one story are equal but for what is drawn at random; everything else is a difference."""

from typing import Any

import pytest
from matrix.oracle import ObjectKey, differences, key_of, normalised, orphans, without

from controller_runtime import JsonObject

UID = "00000000-0000-4000-8000-{:012d}"


def obj(kind: str, name: str, number: int, *, owner: JsonObject | None = None, **body: Any) -> JsonObject:
    metadata: JsonObject = {
        "name": name, "namespace": "ns", "uid": UID.format(number), "resourceVersion": str(number),
        "generation": number, "creationTimestamp": f"2026-01-01T00:00:{number % 60:02}Z",
    }  # fmt: skip
    if owner is not None:
        identity = owner["metadata"]
        metadata["ownerReferences"] = [{"kind": owner["kind"], "name": identity["name"], "uid": identity["uid"]}]
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **body}


def story(first: int, suffix: str, *, replicas: int = 1, state: str = "Running") -> list[JsonObject]:
    """A service with a child that is named after its UID, at numbers of its own."""
    service = obj("AIMService", "chat", first, status={"status": state, "observedGeneration": first})
    child = obj("Job", f"download-{suffix}", first + 1, owner=service, spec={"replicas": replicas})
    pod = obj(
        "Pod", f"download-{suffix}-x{first:04}", first + 2, owner=child, status={"phase": "Running", "podIP": suffix}
    )
    pod["metadata"]["generateName"] = f"download-{suffix}-"
    reported = {"type": "Ready", "status": "True", "lastTransitionTime": f"2026-01-01T00:00:{first:02}Z"}
    service["status"]["conditions"] = [
        reported,
        {"type": "A", "status": "True", "message": f"by {UID.format(first + 1)}"},
    ]
    return [service, child, pod]


@pytest.mark.spec("FW-471")
def test_two_runs_of_the_same_story_are_equal() -> None:
    first = normalised(story(1, "0a1b2c3d4e"))
    assert differences(first, normalised(story(40, "f6e5d4c3b2"))) == []
    assert differences(first, normalised(story(40, "daddfaad"))) == [], "by chance without a digit"


@pytest.mark.spec("FW-471")
@pytest.mark.parametrize(
    ("other", "reported"),
    [
        (story(40, "f6e5d4c3b2", replicas=2), "Job ns/download-<hash>: .spec.replicas: 1 became 2"),
        (story(40, "f6e5d4c3b2", state="Failed"), "AIMService ns/chat: .status.status: 'Running' became 'Failed'"),
        (story(40, "f6e5d4c3b2")[:2], "missing: Pod ns/download-<random>"),
        ([*story(40, "f6e5d4c3b2"), obj("Job", "download-0011223344", 50)], "extra: Job ns/download-<hash> <2>"),
    ],
)
def test_whatever_else_differs_is_reported(other: list[JsonObject], reported: str) -> None:
    assert reported in differences(normalised(story(1, "0a1b2c3d4e")), normalised(other))


def test_a_failure_that_is_over_is_no_difference_and_one_that_lasts_is() -> None:
    failed = {"reason": "ModelLoadFailed", "exitCode": 143}

    def reported(transition: str, **more: JsonObject) -> JsonObject:
        return obj("InferenceService", "own", 1, status={"modelStatus": {"transitionStatus": transition, **more}})

    clean = normalised([reported("UpToDate")])
    assert differences(clean, normalised([reported("UpToDate", lastFailureInfo=failed)])) == []
    [difference] = differences(clean, normalised([reported("BlockedByFailedLoad", lastFailureInfo=failed)]))
    assert "transitionStatus: 'UpToDate' became 'BlockedByFailedLoad'" in difference


def test_who_saw_a_claim_first_is_no_difference_and_whether_it_is_bound_is() -> None:
    def claim(**annotations: str) -> JsonObject:
        made = obj("PersistentVolumeClaim", "cache", 1)
        made["metadata"]["annotations"] = {f"{name}.kubernetes.io/{key}": "x" for name, key in annotations.items()}
        return made

    asked = normalised([claim(volume="storage-provisioner", pv="bind-completed")])
    assert differences(asked, normalised([claim(pv="bind-completed")])) == []
    assert differences(asked, normalised([claim(volume="storage-provisioner")])) != []


def test_a_generated_name_whose_prefix_was_cut_is_one() -> None:
    pod = obj("Pod", "weights-0a1b2c3d4e-download-54c1e38bm89", 1, status={"phase": "Running"})
    pod["metadata"]["generateName"] = "weights-0a1b2c3d4e-download-54c1e3f0-"
    [key] = normalised([pod])
    assert key.name == "weights-<hash>-download-<random>"


def test_words_of_a_name_are_no_hash() -> None:
    [key] = normalised([obj("Job", "discover-amdenterpriseai-predictor-download-4f6a", 1)])
    assert key.name == "discover-amdenterpriseai-predictor-download-4f6a"


@pytest.mark.spec("FW-471")
def test_an_object_whose_owner_is_gone_is_an_orphan() -> None:
    service, child, pod = story(1, "0a1b2c3d4e")
    assert orphans([service, child, pod], {"AIMService", "Job"}) == []
    assert orphans([child, pod], {"AIMService", "Job"}) == ["orphan: Job ns/download-0a1b2c3d4e"]
    assert orphans([child], {"Job"}) == [], "nobody knows whether an owner of an unknown kind is there"


def test_what_only_a_left_out_object_owns_is_left_out() -> None:
    everything = story(1, "0a1b2c3d4e")
    assert without(everything, lambda key: key.name == "chat") == []
    assert without(everything, lambda key: key.name == "other") == everything
    shared = obj("ConfigMap", "shared", 9, owner=everything[0])
    other = obj("AIMService", "other", 10)
    shared["metadata"]["ownerReferences"] += obj("x", "x", 11, owner=other)["metadata"]["ownerReferences"]
    left = without([*everything, shared, other], lambda key: key.name == "chat")
    assert [key_of(one).name for one in left] == ["shared", "other"]


def test_the_object_that_comes_instead_of_another_is_not_it() -> None:
    before = normalised(story(1, "0a1b2c3d4e"))
    assert ObjectKey("AIMService", "ns", "chat") in before
