"""What Jobs of artifacts have of configurations of older kinds: credentials for their source, and HF_HOME."""

import pytest
from support.artifacts import TEAM, Cluster, artifact, children_of
from support.builders import make
from support.old_objects import NAMESPACE_CONFIG

from aim_domain.kinds import AIM_NAMESPACE_CONFIG, KAIWO_CONFIG
from aim_domain.parts import ARTIFACT_JOBS, ARTIFACTS
from controller_runtime import JsonObject

OF_NAMESPACE = make(AIM_NAMESPACE_CONFIG, "one", namespace=TEAM, spec=NAMESPACE_CONFIG)
AWS = {"AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}


def pod_of(part: str, one: JsonObject, config: JsonObject) -> JsonObject:
    """The pod of the Job that is made next."""
    known = Cluster(one, config)
    for _ in range(5):
        for job in children_of(known.run(ARTIFACTS, "qwen"), ARTIFACT_JOBS):
            if part in job["metadata"]["name"]:
                pod: JsonObject = job["spec"]["template"]["spec"]
                return pod
    raise AssertionError(f"no Job {part}")


def variables_of(pod: JsonObject) -> dict[str, str]:
    return {variable["name"]: variable.get("value", "") for variable in pod["containers"][0]["env"]}


def credentials_of(part: str, one: JsonObject) -> set[str]:
    """Names of the variables with credentials."""
    return {*variables_of(pod_of(part, one, OF_NAMESPACE))} & {"HF_TOKEN", *AWS}


@pytest.mark.spec("RC-152", "RC-S30")
def test_size_checks_and_downloads() -> None:
    for part, spec in (("check-size", {}), ("download", {"size": "8Gi"})):
        assert credentials_of(part, artifact(spec=spec)) == {"HF_TOKEN"}
        in_s3 = artifact(uri="s3://bucket/model", spec={"modelId": "org/model", **spec})
        assert credentials_of(part, in_s3) == AWS


@pytest.mark.spec("RC-156")
def test_downloads_keep_what_the_hub_client_needs_where_the_config_says() -> None:
    config = make(KAIWO_CONFIG, "kaiwo", spec={"storage": {"defaultHfMountPath": "/data/hf"}})
    pod = pod_of("download", artifact(spec={"size": "8Gi"}), config)
    assert variables_of(pod)["HF_HOME"] == "/data/hf"
    assert {"name": "hf-home", "emptyDir": {}} in pod["volumes"]
    assert {"name": "hf-home", "mountPath": "/data/hf"} in pod["containers"][0]["volumeMounts"]
    own = artifact(spec={"size": "8Gi", "env": [{"name": "HF_HOME", "value": "/cache/hf"}]})
    assert variables_of(pod_of("download", own, config))["HF_HOME"] == "/cache/hf"
    plain = pod_of("download", artifact(spec={"size": "8Gi"}), OF_NAMESPACE)
    assert (variables_of(plain)["HF_HOME"], len(plain["volumes"])) == ("/tmp/.hf", 1)
    assert "HF_HOME" not in variables_of(pod_of("check-size", artifact(), config))
