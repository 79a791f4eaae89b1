"""From a cache to its weights and back, by processes that end after a few writes, each with a new leader after it."""

import pytest
from support.artifacts import TEAM, Cluster, artifact, namespace, source, template, template_cache
from support.builders import make, owner, terminated

from aim_domain import labels
from aim_domain.parts import ARTIFACT_CLAIMS, ARTIFACT_JOBS, ARTIFACT_PODS, ARTIFACTS, TEMPLATE_CACHES
from controller_runtime import JsonObject, StatusValue, dumps
from controller_runtime.kinds import POD
from controller_runtime.testing import NOW

_ROUNDS = 60


class Life(Cluster):
    """A cache of one source whose size nobody knows, and a cluster that answers once it is asked."""

    def __init__(self, writes: int) -> None:
        super().__init__(template_cache(), template(source()), namespace())
        self.writes = writes
        self.passes = 0

    def look(self) -> None:
        """A process that ends early sees each object; another one is the leader after it."""
        for part in (TEMPLATE_CACHES, ARTIFACTS):
            for name in self.names(part):
                self.crash(part, name, writes=self.writes)
                self.passes += 1
                self.check()

    def check(self) -> None:
        """Whatever a process has left undone, nothing is there twice."""
        for part in (ARTIFACTS, ARTIFACT_CLAIMS):
            assert len(self.names(part)) <= 1
        kinds = [one["metadata"]["labels"][labels.COMPONENT] for one in self.all(ARTIFACT_JOBS)]
        assert len(kinds) == len(set(kinds))

    def play(self) -> None:
        """What kubelet, Job controller and provisioner do with what is there."""
        for claim in self.all(ARTIFACT_CLAIMS):
            if claim["status"]["phase"] != "Bound":
                self.change(ARTIFACT_CLAIMS, claim["metadata"]["name"], status={"phase": "Bound"})
        for job in self.all(ARTIFACT_JOBS):
            if not (job.get("status") or {}).get("conditions"):
                self.end_of(job)

    def end_of(self, job: JsonObject) -> None:
        """The Job's pod says what it has to say, and both are done."""
        name, made_for, template = job["metadata"]["name"], job["metadata"]["labels"], job["spec"]["template"]
        said = dumps({"url": "hf://Qwen/Qwen3-32B", "sizeBytes": 3 << 30}).decode()
        message = said if made_for[labels.COMPONENT] == labels.COMPONENT_CHECK_SIZE else ""
        container = template["spec"]["containers"][0]["name"]
        status = {"phase": "Succeeded", "containerStatuses": [terminated(container, 0, "Completed", message)]}
        pod = make(
            POD,
            f"{name}-1",
            namespace=TEAM,
            owners=[owner(job)],
            labels=template["metadata"]["labels"],
            created=self.now,
            spec=template["spec"],
            status=status,
        )
        self.put(ARTIFACT_PODS, pod)
        complete = {"type": "Complete", "status": "True", "reason": "Done", "lastTransitionTime": job_time(job)}
        self.change(ARTIFACT_JOBS, name, status={"conditions": [complete]})

    def lives_until(self, value: StatusValue) -> None:
        """Processes come and go until the cache is as wished."""
        for _ in range(_ROUNDS):
            if self.status(TEMPLATE_CACHES, "qwen").get("status") == value:
                return
            self.look()
            self.play()
            self.later(2)
        pytest.fail(f"not {value} after {self.passes} processes: {self.raw(TEMPLATE_CACHES, 'qwen')}")


def job_time(job: JsonObject) -> str:
    return str(job["metadata"]["creationTimestamp"])


@pytest.mark.spec("AR-100", "AR-150", "AR-157", "AR-210", "AR-250", "AR-574", "AR-801", "AR-804", "SC-085")
@pytest.mark.parametrize("writes", [1, 2, 3, 100])
def test_the_weights_are_there_once_whoever_dies_on_the_way(writes: int) -> None:
    known = Life(writes)
    known.crash(TEMPLATE_CACHES, "qwen", writes=writes)
    known.lives_until(StatusValue.READY)
    (artifact,) = known.all(ARTIFACTS)
    claim = known.only(ARTIFACT_CLAIMS)
    assert claim["spec"]["resources"]["requests"]["storage"] == "4Gi"
    assert labels.ANNOTATION_DOWNLOAD_VERIFIED in claim["metadata"]["annotations"]
    assert artifact["status"]["persistentVolumeClaim"] == claim["metadata"]["name"]
    assert artifact["status"]["discoveredSizeBytes"] == 3 << 30
    before = known.passes
    known.look()
    assert known.passes > before
    assert [one["metadata"]["resourceVersion"] for one in known.all(ARTIFACTS)] == [
        artifact["metadata"]["resourceVersion"]
    ], "nothing is left to write"


@pytest.mark.spec("AR-560", "AR-574", "AR-801", "AR-804")
@pytest.mark.parametrize("writes", [1, 2])
def test_weights_that_somebody_deleted_come_back_once(writes: int) -> None:
    known = Life(writes)
    known.crash(TEMPLATE_CACHES, "qwen", writes=writes)
    known.lives_until(StatusValue.READY)
    (lost,) = known.all(ARTIFACTS)
    known.remove(ARTIFACTS, lost["metadata"]["name"])
    known.look()
    known.look()
    known.lives_until(StatusValue.READY)
    (made,) = known.all(ARTIFACTS)
    assert made["metadata"]["uid"] != lost["metadata"]["uid"]
    assert known.only(ARTIFACT_CLAIMS)["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]


@pytest.mark.spec("AR-801", "FW-120")
def test_what_an_artifact_of_known_size_costs() -> None:
    """From its creation to Ready, beside what the downloader reports: writes, and Events."""
    known = Cluster(artifact(spec={"size": "1Gi"}, created=NOW), namespace())
    known.settle(ARTIFACTS, "qwen")
    known.bind_claim()
    known.settle(ARTIFACTS, "qwen")
    pod = known.start_pod(None, "Pending")
    known.settle(ARTIFACTS, "qwen")
    known.change(ARTIFACT_PODS, pod, status={"phase": "Running", "containerStatuses": []})
    known.settle(ARTIFACTS, "qwen")
    known.end_pod(pod, 0)
    known.end_job()
    assert known.settle(ARTIFACTS, "qwen").status is not None
    assert known.value(ARTIFACTS, "qwen") is StatusValue.READY
    written = known.written()
    assert sum(count for what, count in written.items() if what != "events") <= 8, written
    assert written["events"] <= 3, written
