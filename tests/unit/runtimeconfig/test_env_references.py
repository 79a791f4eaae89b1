"""Variables stand behind those that they refer to, because Kubernetes expands nothing else."""

import random

import pytest
from support.serving import aim_service, children_of, model, node, plan_for, serving_cache, template, template_cache

from aim_artifacts.jobs import check_size_environment, download_environment
from aim_discovery.templates.job import container_env
from aim_domain import AIMArtifact, RuntimeConfigSpec, TemplateSpec, in_reference_order
from controller_runtime.core import EnvVar


def expanded(ordered: list[tuple[str, str]]) -> dict[str, str]:
    """What Kubernetes makes of a list: from what stands earlier, whatever stays is text."""
    known: dict[str, str] = {}
    for name, value in ordered:
        known[name] = value
        for earlier in list(known)[:-1]:
            known[name] = known[name].replace(f"$({earlier})", known[earlier])
    return known


@pytest.mark.spec("RC-170")
@pytest.mark.parametrize(
    ("values", "order"),
    [
        ({"A": "$(B)/x", "B": "1"}, ["B", "A"]),
        ({"A": "$(B)$(C)", "B": "$(C)", "C": "1"}, ["C", "B", "A"]),
        ({"A": "1", "B": "$(A)", "C": "2"}, ["A", "B", "C"]),
        ({"A": "$$(B)", "B": "1"}, ["A", "B"]),
        ({"A": "$$$(B)", "B": "1"}, ["B", "A"]),
        ({"A": "$(A):more", "B": "$(GONE)"}, ["A", "B"]),
        ({"A": "$(B", "B": "$", "C": "$("}, ["A", "B", "C"]),
    ],
)
def test_a_variable_stands_behind_those_that_it_refers_to(values: dict[str, str], order: list[str]) -> None:
    assert in_reference_order(values) == order
    again = in_reference_order({name: values[name] for name in order})
    assert again == order, "an order that is right stays"


@pytest.mark.spec("RC-170")
def test_a_circle_of_references_ends() -> None:
    assert in_reference_order({"A": "$(B)", "B": "$(A)"}) == ["B", "A"]


@pytest.mark.spec("RC-170")
def test_every_reference_is_expanded_whatever_the_names() -> None:
    chance = random.Random(28)
    for _ in range(200):
        names = [f"V{number}" for number in range(12)]
        chance.shuffle(names)
        values = {names[0]: "root"}
        for index, name in enumerate(names[1:], 1):
            values[name] = "/".join(f"$({one})" for one in chance.sample(names[:index], min(index, 2)))
        given = dict(sorted(values.items()))
        assert not any("$" in text for text in expanded([(n, values[n]) for n in in_reference_order(given)]).values())


@pytest.mark.spec("RC-170", "FW-800")
def test_long_chains_and_hostile_values_cost_little() -> None:
    chain = {f"V{number}": f"$(V{number + 1})" for number in range(20_000)}
    assert in_reference_order(chain)[0] == "V19999"
    hostile = {"A": "$(" * 200_000, "B": "$" * 400_000, "C": "$(A)" * 100_000}
    assert in_reference_order(hostile) == ["A", "B", "C"]


SHARE = [{"name": "ADAPTER_PATH", "value": "$(SHARE_ROOT)/adapters"}, {"name": "SHARE_ROOT", "value": "/mnt/share"}]


@pytest.mark.spec("RC-170", "SV-154")
@pytest.mark.parametrize("given", [SHARE, SHARE[::-1]])
def test_in_the_inference_service(given: list[dict[str, str]]) -> None:
    ready = [model(), template(), node(), template_cache("qwen3-lat-a04542d9")]
    (made,) = children_of(plan_for(serving_cache(aim_service(env=given), *ready)), "InferenceService")
    names = [one["name"] for one in made["spec"]["predictor"]["containers"][0]["env"]]
    assert names == ["SHARE_ROOT", "ADAPTER_PATH", "AIM_CACHE_PATH", "VLLM_ENABLE_METRICS"]


@pytest.mark.spec("RC-170", "AR-261")
def test_in_jobs_that_load_and_measure_weights() -> None:
    env = [{"name": "SCRATCH", "value": "/cache/scratch"}, {"name": "HF_HOME", "value": "$(SCRATCH)/hf"}]
    artifact = AIMArtifact.model_validate(
        {"metadata": {"name": "a", "namespace": "n"}, "spec": {"sourceUri": "hf://a/b", "env": env}}
    )
    config = RuntimeConfigSpec.model_validate({"env": [{"name": "HF_HOME", "value": "/elsewhere"}]})
    for made in (download_environment(artifact, config, 1), check_size_environment(artifact, config)):
        names = [one.name for one in made]
        assert names.index("SCRATCH") < names.index("HF_HOME")


@pytest.mark.spec("RC-170", "DI-237")
def test_in_the_discovery_job() -> None:
    user = [EnvVar(name="AIM_LOG_LEVEL", value="$(LEVEL)"), EnvVar(name="LEVEL", value="INFO")]
    made = container_env(TemplateSpec(model_name="m"), user, None, is_shared=False)
    names = [one["name"] for one in made]
    assert names.index("LEVEL") < names.index("AIM_LOG_LEVEL")
