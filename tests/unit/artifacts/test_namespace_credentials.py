"""Jobs of artifacts know the credentials of their namespace for the host of their source."""

import pytest
from support.artifacts import TEAM, Cluster, artifact, children_of
from support.builders import make
from support.old_objects import NAMESPACE_CONFIG

from aim_domain.kinds import AIM_NAMESPACE_CONFIG
from aim_domain.parts import ARTIFACT_JOBS, ARTIFACTS
from controller_runtime import JsonObject

OF_NAMESPACE = make(AIM_NAMESPACE_CONFIG, "one", namespace=TEAM, spec=NAMESPACE_CONFIG)
AWS = {"AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}


def credentials_of(part: str, one: JsonObject) -> set[str]:
    """Names of the variables with credentials in the Job that is made next."""
    known = Cluster(one, OF_NAMESPACE)
    for _ in range(5):
        jobs = [
            job for job in children_of(known.run(ARTIFACTS, "qwen"), ARTIFACT_JOBS) if part in job["metadata"]["name"]
        ]
        if jobs:
            container = jobs[0]["spec"]["template"]["spec"]["containers"][0]
            return {variable["name"] for variable in container["env"]} & {"HF_TOKEN", *AWS}
    raise AssertionError(f"no Job {part}")


@pytest.mark.spec("RC-152", "RC-S30")
def test_size_checks_and_downloads() -> None:
    for part, spec in (("check-size", {}), ("download", {"size": "8Gi"})):
        assert credentials_of(part, artifact(spec=spec)) == {"HF_TOKEN"}
        in_s3 = artifact(uri="s3://bucket/model", spec={"modelId": "org/model", **spec})
        assert credentials_of(part, in_s3) == AWS
