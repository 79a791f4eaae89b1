"""The demo catalogue: labels as published images carry them, and what discovery prints."""

import ast
import json

import pytest

from aim_local.registry import DEMO_IMAGES, ImageStore, discovery_log, discovery_output, fill
from aim_local.registry.images import DeploymentStyle, deployments_label, find_image

QWEN = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"


def test_every_image_is_in_the_store() -> None:
    store = fill(ImageStore())
    for image in DEMO_IMAGES:
        tags = store.tags(image.repository)
        assert tags is not None
        assert set(image.tags) <= set(tags)


@pytest.mark.spec("DI-110")
@pytest.mark.parametrize("style", DeploymentStyle)
def test_all_spellings_of_a_deployment_list_mean_the_same(style: DeploymentStyle) -> None:
    image = find_image(QWEN)
    assert image is not None
    text = deployments_label(image.profiles, style)
    listed = text if text.startswith("[") else f"[{text}]"
    entries = json.loads(listed) if style.startswith("json") else ast.literal_eval(listed)
    assert [entry["profileId"] for entry in entries] == [
        "vllm-mi300x-fp16-tp1-latency",
        "vllm-mi300x-fp8-tp1-throughput",
        "vllm-mi325x-fp16-tp2-latency",
    ]


def test_both_prefixes_and_all_spellings_occur() -> None:
    assert {image.style for image in DEMO_IMAGES} == set(DeploymentStyle)
    assert len({image.prefix for image in DEMO_IMAGES}) == 2


@pytest.mark.parametrize("host", ["", "docker.io/", "127.0.0.1:5000/"])
def test_discovery_prints_the_profile_that_the_environment_asks_for(host: str) -> None:
    env = {"AIM_GPU_MODEL": "MI300X", "AIM_GPU_COUNT": "1", "AIM_METRIC": "throughput", "AIM_LOG_LEVEL": "CRITICAL"}
    output = discovery_output(host + QWEN, env)
    assert output is not None
    assert output["profile"]["metadata"] == {
        "engine": "vllm",
        "gpu": "MI300X",
        "gpu_count": 1,
        "metric": "throughput",
        "precision": "fp8",
        "type": "optimized",
        "manual_selection_only": False,
    }
    assert output["models"] == [{"name": "Qwen/Qwen3-32B-FP8", "source": "hf://Qwen/Qwen3-32B-FP8", "size_gb": 32.1}]
    log = discovery_log(host + QWEN, env)
    assert log is not None
    assert json.loads(log) == [output]


def test_discovery_by_profile_id() -> None:
    output = discovery_output(QWEN, {"AIM_PROFILE_ID": "vllm-mi325x-fp16-tp2-latency"})
    assert output is not None
    assert output["profile"]["engine_args"]["tensor-parallel-size"] == 2


@pytest.mark.spec("DI-252")
def test_discovery_of_a_custom_profile() -> None:
    profile_id = "custom/meta-llama/Llama-3-8B/vllm-mi300x-fp16-tp1-latency"
    output = discovery_output(
        "amdenterpriseai/aim-base:0.9.0", {"AIM_ID": "meta-llama/Llama-3-8B", "AIM_PROFILE_ID": profile_id}
    )
    assert output is not None
    assert output["profile"]["metadata"]["type"] == "unoptimized"
    assert output["profile"]["aim_id"] == "meta-llama/Llama-3-8B"


@pytest.mark.parametrize(
    ("image", "env"),
    [
        (QWEN, {"AIM_GPU_MODEL": "MI100"}),
        ("amdenterpriseai/aim-qwen-qwen3-32b:9.9.9", {}),
        ("unknown/image:1", {}),
        ("not an image", {}),
        ("amdenterpriseai/aim-base:0.9.0", {}),
        ("badcases/no-labels:1.0.0", {}),
    ],
)
def test_discovery_that_fails(image: str, env: dict[str, str]) -> None:
    assert discovery_output(image, env) is None
    assert discovery_log(image, env) is None


def test_discovery_output_that_can_not_be_used() -> None:
    assert discovery_log("badcases/empty-output:1.0.0", {}) == "[]\n"
    noise = discovery_log("badcases/noisy-output:1.0.0", {})
    assert noise is not None
    assert "ERROR" in noise
