"""Inspection and discovery know the token and the pull secrets of their namespace."""

import pytest
from support.builders import NAMESPACE, make
from support.discovery_cache import cluster_model, discovery_cluster, effect_of, model, template
from support.old_objects import NAMESPACE_CONFIG

from aim_discovery.image_effects import IMAGE_INSPECTION, PULL_SECRETS
from aim_domain.kinds import AIM_NAMESPACE_CONFIG
from aim_domain.parts import CLUSTER_MODELS, MODELS, TEMPLATES

OF_NAMESPACE = make(AIM_NAMESPACE_CONFIG, "one", namespace=NAMESPACE, spec=NAMESPACE_CONFIG)
TOKEN = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf-creds", "key": "token"}}}


@pytest.mark.spec("RC-152", "RC-153", "RC-S30")
def test_a_discovery_job() -> None:
    own = template(imagePullSecrets=[{"name": "own"}])
    (job,) = discovery_cluster(model(), own, OF_NAMESPACE).run(TEMPLATES, "tpl").children
    pod = job.body["spec"]["template"]["spec"]
    assert TOKEN in pod["containers"][0]["env"]
    assert not any(variable["name"].startswith("AWS") for variable in pod["containers"][0]["env"])
    assert pod["imagePullSecrets"] == [{"name": "own"}, {"name": "my-regcred"}, {"name": "another-secret"}]
    (without,) = discovery_cluster(model(), own).run(TEMPLATES, "tpl").children
    assert TOKEN not in without.body["spec"]["template"]["spec"]["containers"][0]["env"]


@pytest.mark.spec("RC-152")
def test_an_explicit_token_wins_in_discovery() -> None:
    mine = {"name": "HF_TOKEN", "value": "mine"}
    (job,) = discovery_cluster(model(env=[mine]), template(), OF_NAMESPACE).run(TEMPLATES, "tpl").children
    env = job.body["spec"]["template"]["spec"]["containers"][0]["env"]
    assert [variable for variable in env if variable["name"] == "HF_TOKEN"] == [mine]


@pytest.mark.spec("RC-153", "RC-S30")
def test_an_image_is_read_with_the_namespace_s_pull_secrets() -> None:
    twice = [{"name": "own"}, {"name": "my-regcred"}]
    cluster = discovery_cluster(model(imagePullSecrets=twice), OF_NAMESPACE)
    names = ["own", "my-regcred", "another-secret"]
    asked = effect_of(cluster.run(MODELS, "qwen"), PULL_SECRETS.name)
    assert asked.params == {"namespace": NAMESPACE, "secrets": names}
    cluster.answer(asked, {"versions": dict.fromkeys(names, "1")})
    reading = effect_of(cluster.run(MODELS, "qwen"), IMAGE_INSPECTION.name)
    assert reading.params["secrets"] == names


@pytest.mark.spec("RC-151")
def test_a_cluster_model_knows_no_namespace() -> None:
    plan = discovery_cluster(cluster_model(), OF_NAMESPACE).run(CLUSTER_MODELS, "qwen", "")
    assert effect_of(plan, IMAGE_INSPECTION.name).params["secrets"] == []
