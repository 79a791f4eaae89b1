"""The account of download pods: looked at before a Job is made, and bound in the place of `default`."""

from typing import Any

import pytest
from pydantic import ValidationError
from support.artifacts import TEAM, Cluster, artifact, children_of, conditions_of, message_of
from support.builders import make

from aim_artifacts.download_account import DOWNLOAD_ACCOUNT, DownloadAccount
from aim_artifacts.settings import STATUS_UPDATER, ArtifactsSettings
from aim_domain.parts import ARTIFACT_CLAIMS, ARTIFACT_JOBS, ARTIFACTS, STATUS_UPDATER_BINDINGS
from controller_runtime import Category, ClassifiedError, Effect, JsonObject, to_json
from controller_runtime.kinds import ROLE_BINDING
from controller_runtime.manager.settings import effective, recorded

DOWNLOADER = {"kind": "ServiceAccount", "name": "aim-engine-downloader", "namespace": TEAM}
DEFAULT = {"kind": "ServiceAccount", "name": "default", "namespace": TEAM}


class Unknown(Cluster):
    """Nobody has looked at the account, and the volumes are there."""

    account = None

    def __init__(self, *objects: JsonObject) -> None:
        super().__init__(*objects)
        for one in self.all(ARTIFACTS):
            self.run(ARTIFACTS, one["metadata"]["name"])
        for claim in self.names(ARTIFACT_CLAIMS):
            self.change(ARTIFACT_CLAIMS, claim, status={"phase": "Bound"})

    def asked(self, name: str = "qwen") -> Effect:
        """What the pass asks for instead of making a Job."""
        plan = self.run(ARTIFACTS, name)
        assert not children_of(plan, ARTIFACT_JOBS)
        (effect,) = (one for one in plan.effects if one.kind == DOWNLOAD_ACCOUNT.name)
        return effect


def sized(name: str = "qwen", **spec: Any) -> JsonObject:
    return artifact(name, uid=f"uid-{name}", spec={"size": "1Gi", **spec})


def pod_of(known: Cluster, name: str = "qwen") -> JsonObject:
    (job,) = children_of(known.run(ARTIFACTS, name), ARTIFACT_JOBS)
    return dict(job["spec"]["template"]["spec"])


@pytest.mark.spec("AR-810", "AR-811", "FW-304")
def test_no_job_is_made_before_its_account_was_looked_at_and_one_look_serves_all_of_that_moment() -> None:
    known = Unknown(sized("one"), sized("two"))
    asked = known.asked("one")
    assert asked.params == {"namespace": TEAM, "account": "aim-engine-downloader"}
    known.answer(asked, to_json(DownloadAccount(pull_secrets=("of-default",))))
    for name in ("one", "two"):
        pod = pod_of(known, name)
        assert (pod["serviceAccountName"], pod["imagePullSecrets"]) == (
            "aim-engine-downloader",
            [{"name": "of-default"}],
        )


@pytest.mark.spec("AR-811")
def test_what_was_attached_since_counts_for_the_next_job() -> None:
    known = Unknown(sized())
    known.answer(known.asked(), to_json(DownloadAccount()))
    known.later(61)
    known.answer(known.asked(), to_json(DownloadAccount(pull_secrets=("new",))))
    assert pod_of(known)["imagePullSecrets"] == [{"name": "new"}]


@pytest.mark.spec("AR-811", "AR-254")
def test_what_the_artifact_names_stands_alone() -> None:
    known = Unknown(sized(imagePullSecrets=[{"name": "own"}]))
    known.answer(known.asked(), to_json(DownloadAccount(pull_secrets=("of-default",))))
    assert pod_of(known)["imagePullSecrets"] == [{"name": "own"}]


@pytest.mark.spec("AR-810")
def test_an_account_that_cannot_be_made_is_reported_of_and_tried_again() -> None:
    known = Unknown(sized())
    refused = ClassifiedError(Category.INFRASTRUCTURE, "Forbidden", "ServiceAccount of download pods: refused")
    known.answer(known.asked(), failure=refused)
    plan = known.run(ARTIFACTS, "qwen")
    assert "refused" in message_of(plan, "DependenciesReachable")
    assert conditions_of(plan)["Ready"][0] == "False"
    (again,) = (one for one in plan.effects if one.kind == DOWNLOAD_ACCOUNT.name)
    assert again.not_before is not None
    assert again.not_before > known.now


@pytest.mark.spec("FW-304")
@pytest.mark.parametrize("name", ["default", ""])
def test_default_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="ordinary pods run as `default`"):
        ArtifactsSettings(artifact_service_account=name)


@pytest.mark.spec("FW-662", "FW-304")
def test_what_a_former_release_recorded_is_still_read() -> None:
    values = {**effective(ArtifactsSettings()), "artifact_service_account": "default"}
    assert recorded(ArtifactsSettings, values).artifact_service_account == "aim-engine-downloader"


def bound(*subjects: JsonObject, role: str = STATUS_UPDATER) -> JsonObject:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    return make(ROLE_BINDING, STATUS_UPDATER, namespace=TEAM, roleRef=reference, subjects=list(subjects))


GROUP = {"kind": "Group", "name": "uploaders", "apiGroup": "rbac.authorization.k8s.io"}


@pytest.mark.spec("AR-813", "AR-271")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([DEFAULT], [DOWNLOADER]),
        ([DEFAULT, GROUP], [GROUP, DOWNLOADER]),
        ([DEFAULT, DOWNLOADER], [DOWNLOADER]),
        ([], [DOWNLOADER]),
    ],
)
def test_the_binding_of_a_former_release_is_moved_once(before: list[JsonObject], after: list[JsonObject]) -> None:
    known = Cluster(artifact(spec={"size": "1Gi"}), bound(*before))
    known.settle(ARTIFACTS, "qwen")
    assert known.only(STATUS_UPDATER_BINDINGS)["subjects"] == after
    assert known.written()["rolebindings"] == 1


@pytest.mark.spec("AR-813")
@pytest.mark.parametrize(
    "binding", [bound(DOWNLOADER), bound(GROUP, DOWNLOADER), bound(DEFAULT, role="somebody-else-s")]
)
def test_what_is_in_order_or_of_another_role_is_left_alone(binding: JsonObject) -> None:
    known = Cluster(artifact(spec={"size": "1Gi"}), binding)
    known.settle(ARTIFACTS, "qwen")
    assert known.written()["rolebindings"] == 0


@pytest.mark.spec("AR-813")
def test_an_artifact_that_is_ready_takes_the_right_away_too() -> None:
    known = Cluster(artifact(spec={"size": "1Gi"}))
    known.settle(ARTIFACTS, "qwen")
    known.bind_claim()
    known.settle(ARTIFACTS, "qwen")
    known.end_job()
    known.settle(ARTIFACTS, "qwen")
    known.change(STATUS_UPDATER_BINDINGS, STATUS_UPDATER, subjects=[DEFAULT])
    known.settle(ARTIFACTS, "qwen")
    assert known.only(STATUS_UPDATER_BINDINGS)["subjects"] == [DOWNLOADER]
