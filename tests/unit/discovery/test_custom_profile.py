"""Custom profiles: the file, the ConfigMap, the Job that mounts it (section 11)."""

from typing import Any

import pytest
import yaml
from support.discovery_cache import MI300X, DiscoveryCluster, discovery_cluster, model, template

from aim_domain import InvalidProfileError, TemplateSpec, render_profile
from aim_domain.parts import CUSTOM_PROFILES, DISCOVERY_JOBS, TEMPLATES
from controller_runtime import JsonObject

PROFILE: JsonObject = {
    "modelName": "qwen",
    "aimId": "meta-llama/Llama-3-8B",
    "modelId": "org/weights",
    "hardware": MI300X,
    "metric": "latency",
    "precision": "fp16",
    "customProfile": {"engineArgs": {"z": None, "a": {"b": 1}}, "envVars": {"HIP_X": "1"}},
}
NAME = "my-template-custom-profile-ee700ae9"


def given(**changes: Any) -> TemplateSpec:
    return TemplateSpec.model_validate({**PROFILE, **changes})


@pytest.mark.spec("DI-243", "DI-244", "DI-245", "DI-246", "DI-248", "DI-256", "AC-66")
def test_the_file_is_what_the_runtime_reads() -> None:
    rendered = render_profile(given())
    assert rendered.file_name == "vllm-mi300x-fp16-tp1-latency.yaml"
    assert rendered.profile_id == "custom/meta-llama/Llama-3-8B/vllm-mi300x-fp16-tp1-latency"
    assert yaml.safe_load(rendered.text) == {
        "aim_id": "meta-llama/Llama-3-8B",
        "model_id": "org/weights",
        "metadata": {
            "engine": "vllm",
            "gpu": "MI300X",
            "gpu_count": 1,
            "manual_selection_only": False,
            "metric": "latency",
            "precision": "fp16",
            "type": "unoptimized",
        },
        "engine_args": {"z": None, "a": {"b": 1}},
        "env_vars": {"HIP_X": "1"},
    }
    assert rendered.text == render_profile(given()).text


@pytest.mark.spec("CC-303", "CC-305", "DI-241", "DI-242")
@pytest.mark.parametrize(
    "changes",
    [
        {"customProfile": {"engineArgs": ["x"]}},
        {"customProfile": {"engineArgs": {"model": "x"}}},
        {"customProfile": {"envVars": {"lower": "1"}}},
        {"hardware": {"gpu": {"requests": 1}}},
        {"hardware": {"gpu": {"requests": 0, "model": "MI300X"}}},
        {"aimId": ""},
        {"modelId": None},
        {"aimId": "a/../b"},
        {"aimId": "a//b"},
    ],
)
def test_a_profile_that_can_not_work_is_refused(changes: JsonObject) -> None:
    with pytest.raises(InvalidProfileError):
        render_profile(given(**changes))


def running(**changes: Any) -> DiscoveryCluster:
    return discovery_cluster(model(), template("my-template", **{"model_name": "qwen", **_spec(changes)}))


def _spec(changes: JsonObject) -> JsonObject:
    return {name: value for name, value in {**PROFILE, **changes}.items() if name != "modelName"}


@pytest.mark.spec("DI-236", "DI-240", "DI-247", "DI-250", "DI-251", "DI-252", "DI-253", "AC-66")
def test_the_job_mounts_the_config_map_and_uses_the_profile() -> None:
    cluster = running(profileId="other", env=[{"name": "AIM_PROFILE_ID", "value": "mine"}, {"name": "A", "value": "1"}])
    plan = cluster.run(TEMPLATES, "my-template")
    config_map, job = plan.children
    assert (config_map.part, config_map.name, job.part) == (CUSTOM_PROFILES, NAME, DISCOVERY_JOBS)
    assert list(config_map.body["data"]) == ["vllm-mi300x-fp16-tp1-latency.yaml"]
    assert config_map.body["metadata"]["labels"]["aim.eai.amd.com/component"] == "custom-profile"
    pod = job.body["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["volumes"] == [{"name": "custom-profile", "configMap": {"name": NAME}}]
    assert container["volumeMounts"] == [
        {
            "name": "custom-profile",
            "mountPath": "/workspace/aim-runtime/profiles/custom/meta-llama/Llama-3-8B",
            "readOnly": True,
        }
    ]
    env = {one["name"]: one["value"] for one in container["env"]}
    assert len(env) == len(container["env"])
    assert env["AIM_ID"] == "meta-llama/Llama-3-8B"
    assert env["AIM_PROFILE_ID"] == "custom/meta-llama/Llama-3-8B/vllm-mi300x-fp16-tp1-latency"
    assert env["A"] == "1"
    assert "HIP_X" not in env
    assert "AIM_MODEL_ID" not in env
    assert "ProfileIdIgnored" in [event.reason for event in plan.events]
    assert cluster.condition(TEMPLATES, "my-template", "CustomProfileReady") == ("True", "CustomProfileRendered")


@pytest.mark.spec("DI-241")
def test_an_invalid_profile_fails_the_template_and_creates_nothing() -> None:
    cluster = running(customProfile={"engineArgs": {"model": "x"}})
    assert cluster.run(TEMPLATES, "my-template").children == ()
    assert cluster.value(TEMPLATES, "my-template") == "Failed"
    assert cluster.condition(TEMPLATES, "my-template", "CustomProfileReady") == ("False", "InvalidCustomProfile")


@pytest.mark.spec("DI-249", "DI-257")
def test_inline_templates_have_the_config_map_too_until_the_profile_goes() -> None:
    sources = [{"modelId": "a/b", "sourceUri": "hf://a/b"}]
    cluster = running(modelSources=sources)
    assert [child.part for child in cluster.run(TEMPLATES, "my-template").children] == [CUSTOM_PROFILES]
    profile = cluster.status(TEMPLATES, "my-template")["profile"]
    assert profile["engine_args"] == {"z": None, "a": {"b": 1}}
    assert profile["env_vars"] == {"HIP_X": "1"}
    assert profile["metadata"]["engine"] == "vllm"
    without = {name: value for name, value in PROFILE.items() if name != "customProfile"}
    cluster.change(TEMPLATES, "my-template", spec={**without, "modelSources": sources})
    assert [delete.name for delete in cluster.run(TEMPLATES, "my-template").deletes] == [NAME]
    assert cluster.run(TEMPLATES, "my-template").deletes == ()
