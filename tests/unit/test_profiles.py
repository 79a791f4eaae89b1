"""Profiles as plain data: which one is meant, how one is derived, how its engine runs (docs/spec/profiles.md)."""

from typing import Any

import pytest
import yaml

from aim_domain import (
    AIMClusterProfile,
    AIMProfile,
    AIMService,
    AnyProfile,
    Floor,
    InvalidProfileError,
    MinimumType,
    ProfileOverrides,
    ProfileSelector,
    accelerator_summary,
    as_model,
    as_template,
    choose,
    compare_versions,
    derived_image,
    derived_spec,
    pipeline_errors,
    profile_file,
    profile_matches,
    runtime_resources,
    uses_profile,
    version_of_image,
)
from controller_runtime import JsonObject

IMAGE = "registry.example.com/team/aim-qwen:0.9.1"
SOURCE = {"modelId": "Qwen/Qwen3-32B", "sourceUri": "hf://Qwen/Qwen3-32B"}
OTHER = {"modelId": "our/tuned", "sourceUri": "hf://our/tuned"}
MODEL = {"name": "qwen", "scope": "Namespace"}


def profile(name: str = "p", *, namespace: str = "team", status: JsonObject | None = None, **spec: Any) -> AnyProfile:
    body = {
        "metadata": {"name": name, "namespace": namespace, "uid": name},
        "spec": {
            "aimId": "qwen/qwen3",
            "modelId": "Qwen/Qwen3-32B",
            "profileId": name,
            "engine": "vllm",
            "image": IMAGE,
            "type": "optimized",
            "metric": "latency",
            "precision": "fp8",
            "acceleratorType": "gpu",
            "acceleratorModel": "MI300X",
            "acceleratorCount": 1,
            "modelSources": [SOURCE],
            **spec,
        },
        "status": {"status": "Ready", **(status or {})},
    }
    body["spec"] = {key: value for key, value in body["spec"].items() if value is not None}
    return (AIMProfile if namespace else AIMClusterProfile).model_validate(body)


def selector(**fields: Any) -> ProfileSelector:
    return ProfileSelector.model_validate(fields)


def best(*candidates: AnyProfile, cluster: tuple[AnyProfile, ...] = (), **fields: Any) -> str:
    wanted = selector(**fields)
    chosen = choose(candidates, cluster, wanted, Floor.of(wanted, MinimumType.OPTIMIZED)).chosen
    return chosen.name if chosen is not None else ""


@pytest.mark.spec("PR-041", "PR-005")
@pytest.mark.parametrize(
    ("fields", "meant"),
    [
        ({}, True),
        ({"aimId": "qwen/qwen3", "modelId": "Qwen/Qwen3-32B", "profileId": "p", "engine": "vllm"}, True),
        ({"aimId": "other"}, False),
        ({"metric": "throughput"}, False),
        ({"precision": "fp8", "type": "optimized"}, True),
        ({"type": "unoptimized"}, False),
        ({"acceleratorModel": "AMD_Instinct_MI300X"}, True),
        ({"acceleratorModel": "MI325X"}, False),
        ({"acceleratorCount": 1, "acceleratorType": "gpu", "acceleratorVendor": "amd"}, True),
        ({"acceleratorVendor": "nvidia"}, False),
        ({"engineArgs": {"x": 1}}, True),
        ({"engineArgs": {"x": 2}}, False),
        ({"engineArgs": {"z": None}}, False),
        ({"modelRef": MODEL}, True),
        ({"modelRef": {"name": "qwen", "scope": "Cluster"}}, False),
        ({"modelRef": {"name": "qwen"}}, True),
        ({"modelRef": {"name": "llama"}}, False),
        ({"role": "base"}, False),
        ({"origin": "discovered"}, True),
        ({"origin": "user-authored"}, False),
    ],
)
def test_a_selector_means_what_is_equal_in_every_field_that_it_sets(fields: dict[str, Any], meant: bool) -> None:
    found = profile(engineArgs={"x": 1, "y": 2}, status={"sourceModel": MODEL, "origin": "discovered"})
    assert profile_matches(selector(**fields), found) == meant


@pytest.mark.spec("PR-007", "PR-041")
def test_labels_make_no_profile_one_of_a_model() -> None:
    body = profile().model_dump(by_alias=True, exclude_unset=True)
    body["metadata"]["labels"] = {
        "aim.eai.amd.com/source-model": "qwen",
        "aim.eai.amd.com/profile-origin": "discovered",
    }
    claimed = AIMProfile.model_validate(body)
    assert not profile_matches(selector(modelRef=MODEL), claimed)
    assert not profile_matches(selector(origin="discovered"), claimed)


@pytest.mark.spec("PR-042")
@pytest.mark.parametrize(
    ("wanted", "mode", "meant"),
    [
        ("", "CPX-NPS4", True),
        ("unpartitioned", "unpartitioned", True),
        ("unpartitioned", "CPX-NPS4", False),
        ("partitioned", "CPX-NPS4", True),
        ("Partitioned", "unpartitioned", False),
        ("cpx", "CPX-NPS1", True),
        ("CPX", "DPX-NPS1", False),
        ("CPX-NPS4", "cpx-nps4", True),
        ("CPX-NPS4", "CPX-NPS1", False),
    ],
)
def test_a_partitioning_is_meant_by_word_by_mode_and_by_scheme(wanted: str, mode: str, meant: bool) -> None:
    fields = {"acceleratorPartitioningMode": wanted} if wanted else {}
    assert profile_matches(selector(**fields), profile(acceleratorPartitioningMode=mode)) == meant


@pytest.mark.spec("PR-046")
@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"primary": True, "type": "general"}, {}),
        ({}, {"type": "general", "acceleratorModel": "MI355X"}),
        ({"type": "general"}, {"type": "preview"}),
        ({"type": "preview"}, {"type": None}),
        ({"acceleratorModel": "MI325X", "metric": "throughput"}, {}),
        ({"acceleratorModel": "MI300X"}, {"acceleratorModel": "UNHEARD-OF"}),
        ({"metric": "latency", "precision": "fp32"}, {"metric": "throughput", "precision": "fp4"}),
        ({"precision": "fp4"}, {"precision": "int4"}),
        ({"precision": "int8"}, {"precision": "fp16"}),
        ({"precision": "bf16"}, {"precision": None}),
        ({"acceleratorCount": 1}, {"acceleratorCount": 2}),
        ({"acceleratorCount": 8}, {"acceleratorCount": 0}),
        ({"acceleratorModel": None}, {"acceleratorModel": None, "acceleratorType": "cpu"}),
        ({"image": "a/b:0.10.0"}, {"image": "a/b:0.9.0"}),
        ({"image": "a/b:0.9.0"}, {"image": "a/b:latest"}),
    ],
)
def test_the_better_profile_is_taken_whatever_its_name(better: dict[str, Any], worse: dict[str, Any]) -> None:
    one, other = profile("z", **better), profile("a", **worse)
    assert best(one, other, minimumType="any") == "z"
    assert best(other, one, minimumType="any") == "z"
    assert best(profile("b"), profile("a"), profile("c")) == "a", "the name decides last"


@pytest.mark.spec("PR-045")
def test_what_can_run_comes_before_what_is_better_and_the_namespace_before_the_cluster() -> None:
    absent = profile("best", primary=True, status={"status": "NotAvailable"})
    assert best(absent, profile("there", type="unoptimized"), minimumType="any") == "there"
    assert best(absent, cluster=(profile("shared", namespace=""),)) == "best", "the namespace has one"
    assert best(profile("x", type="general"), cluster=(profile("shared", namespace=""),)) == "shared"


@pytest.mark.spec("PR-043", "PR-044", "PR-052")
def test_the_least_type_is_optimized_unless_somebody_says_otherwise() -> None:
    general, any_ = profile("general", type="general"), profile("any", type="preview", autoSelectionPolicy="any")
    assert best(general) == ""
    assert best(general, minimumType="general") == "general"
    assert best(general, minimumType="any") == "general"
    assert best(general, any_) == "any", "it allows to be selected where nothing is optimized"
    assert best(general, any_, minimumType="optimized") == "", "unless the least type is written"
    assert best(any_, cluster=(profile("shared", namespace=""),)) == "shared"
    choice = choose([general], [], selector(), Floor.of(None, MinimumType.OPTIMIZED))
    assert [one.name for one in choice.below] == ["general"]
    tied = choose([profile("a"), profile("b"), general], [], selector(), Floor.of(None, MinimumType.ANY))
    assert [one.name for one in tied.tied] == ["b"]


@pytest.mark.spec("PR-046", "PR-114")
@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        ("0.9.0", "0.10.0"),
        ("0.9", "0.9.1"),
        ("1.0.0-rc1", "1.0.0"),
        ("latest", "0.0.1"),
        ("2024-9", "2024-10"),
        ("", "1"),
    ],
)
def test_versions_are_compared_as_versions(lower: str, higher: str) -> None:
    assert compare_versions(lower, higher) < 0 < compare_versions(higher, lower)
    assert compare_versions(higher, higher) == 0


@pytest.mark.spec("PR-046")
def test_what_no_tag_can_have_is_not_compared() -> None:
    assert compare_versions("1.0.0-" + "a" * 122 + "b", "1.0.0-" + "a" * 122 + "c") == 0
    assert compare_versions("1.0.0-" + "a" * 121 + "b", "1.0.0-" + "a" * 121 + "c") < 0


@pytest.mark.spec("PR-006")
@pytest.mark.parametrize(
    ("image", "version"),
    [("a/b:1.2", "1.2"), ("host:5000/a/b", ""), ("a/b:1.2@sha256:00", "1.2"), ("a/b@sha256:00", "")],
)
def test_the_version_is_the_tag(image: str, version: str) -> None:
    assert version_of_image(image) == version


# Derivation


def overrides(**fields: Any) -> ProfileOverrides:
    return ProfileOverrides.model_validate(fields)


@pytest.mark.spec("PR-061")
def test_overrides_replace_merge_by_name_and_add() -> None:
    source = profile(
        engineArgs={"a": 1, "nested": {"x": 1}},
        engineEnv={"A": "1"},
        containerEnv=[{"name": "B", "value": "1"}, {"name": "C", "value": "1"}],
        features=["adapters"],
        caching={"enabled": True},
        resources={"requests": {"cpu": "1"}},
    )
    spec = derived_spec(
        source,
        overrides(
            engineArgs={"b": 2, "nested": {"y": 1}},
            engineEnv={"A": "2"},
            containerEnv=[{"name": "C", "value": "2"}],
            features=["adapters", "tools"],
            acceleratorCount=4,
            modelSources=[OTHER],
            aimId="our/tuned",
        ),
    )
    assert spec["engineArgs"] == {"a": 1, "b": 2, "nested": {"y": 1}}
    assert spec["engineEnv"] == {"A": "2"}
    assert spec["containerEnv"] == [{"name": "B", "value": "1"}, {"name": "C", "value": "2"}]
    assert spec["features"] == ["adapters", "tools"]
    assert (spec["acceleratorCount"], spec["acceleratorModel"]) == (4, "MI300X")
    assert (spec["aimId"], spec["modelId"], spec["modelSources"]) == ("our/tuned", "our/tuned", [OTHER])
    assert spec["resources"] == {"requests": {"cpu": "1"}}
    assert "caching" not in spec
    assert derived_spec(source, overrides(modelSources=[OTHER], modelId="x/y"))["modelId"] == "x/y"


@pytest.mark.spec("PR-062")
@pytest.mark.parametrize(
    ("source", "given", "weights", "image"),
    [
        ({}, "mine:1", True, "mine:1"),
        ({}, "", False, IMAGE),
        ({"modelSources": None, "aimId": None}, "", True, IMAGE),
        ({}, "", True, "registry.example.com/team/aim-base:0.9"),
        (
            {"status": {"baseImage": "docker.io/amd/aim-runtime:0.11.3"}},
            "",
            True,
            "registry.example.com/team/aim-runtime:0.11",
        ),
        ({"status": {"baseImage": "docker.io/amd/aim-runtime@sha256:00"}}, "", True, IMAGE),
        ({"image": "a/b:latest"}, "", True, "a/b:latest"),
        ({"image": "plain:1.2.3"}, "", True, "aim-base:1.2"),
    ],
)
def test_other_weights_need_the_runtime_without_those_of_the_image(
    source: dict[str, Any], given: str, weights: bool, image: str
) -> None:
    assert derived_image(profile(**source), given, new_weights=weights) == image


# Runtime


@pytest.mark.spec("PR-030", "PR-031", "PR-032")
@pytest.mark.parametrize(
    ("spec", "requests", "limits"),
    [
        ({}, {"cpu": "4", "memory": "32Gi", "amd.com/gpu": "1"}, {"memory": "48Gi", "amd.com/gpu": "1"}),
        (
            {"acceleratorCount": 2, "acceleratorPartitioningMode": "DPX-NPS1"},
            {"cpu": "4", "memory": "32Gi", "amd.com/gpu": "2"},
            {"memory": "48Gi", "amd.com/gpu": "2"},
        ),
        (
            {"acceleratorPartitioningMode": "CPX-NPS4"},
            {"cpu": "500m", "memory": "4Gi", "amd.com/gpu": "1"},
            {"memory": "6Gi", "amd.com/gpu": "1"},
        ),
        ({"acceleratorPartitioningMode": "partitioned"}, {"amd.com/gpu": "1"}, {"amd.com/gpu": "1"}),
        (
            {"acceleratorVendor": "nvidia"},
            {"cpu": "4", "memory": "32Gi", "nvidia.com/gpu": "1"},
            {"memory": "48Gi", "nvidia.com/gpu": "1"},
        ),
        (
            {"acceleratorType": "cpu", "acceleratorCount": 64},
            {"cpu": "64", "memory": "120Gi"},
            {"cpu": "64", "memory": "120Gi"},
        ),
        (
            {"acceleratorType": "cpu", "acceleratorCount": 8, "engineEnv": {"VLLM_CPU_KVCACHE_SPACE": "40"}},
            {"cpu": "8", "memory": "80Gi"},
            {"cpu": "8", "memory": "80Gi"},
        ),
        (
            {"resources": {"requests": {"cpu": "9"}, "limits": {"cpu": "10"}}},
            {"cpu": "9", "memory": "32Gi", "amd.com/gpu": "1"},
            {"memory": "48Gi", "amd.com/gpu": "1", "cpu": "10"},
        ),
    ],
)
def test_an_accelerator_brings_its_resources_and_what_is_written_wins(
    spec: dict[str, Any], requests: dict[str, str], limits: dict[str, str]
) -> None:
    assert runtime_resources(profile(**spec)) == {"requests": requests, "limits": limits}


@pytest.mark.spec("PR-006")
@pytest.mark.parametrize(
    ("spec", "summary"),
    [
        ({"acceleratorCount": 2}, "2 x MI300X"),
        ({"acceleratorCount": None}, "MI300X"),
        ({"acceleratorType": "cpu", "acceleratorModel": None}, "CPU"),
        ({"acceleratorType": None, "acceleratorModel": None, "acceleratorCount": None}, ""),
    ],
)
def test_the_hardware_in_a_few_words(spec: dict[str, Any], summary: str) -> None:
    assert accelerator_summary(profile(**spec)) == summary


@pytest.mark.spec("PR-071", "PR-072")
def test_the_file_has_the_older_and_the_newer_names_and_keeps_arguments_without_a_value() -> None:
    rendered = profile_file(profile(engineArgs={"quiet": None, "x": {"y": 1}}, engineEnv={"A": "1"}))
    content = yaml.safe_load(rendered.text)
    metadata = content["metadata"]
    assert (metadata["gpu"], metadata["gpu_count"]) == ("MI300X", 1)
    assert (metadata["accelerator_model"], metadata["accelerator_count"], metadata["accelerator_type"]) == (
        "MI300X",
        1,
        "gpu",
    )
    assert (metadata["metric"], metadata["precision"], metadata["type"]) == ("latency", "fp8", "optimized")
    assert content["engine_args"] == {"quiet": None, "x": {"y": 1}}
    assert content["env_vars"] == {"A": "1"}
    assert rendered.file_name == "vllm-mi300x-fp8-tp1-latency.yaml"
    assert rendered.mount_path == "/workspace/aim-runtime/profiles/custom/qwen/qwen3"
    assert rendered.env == {
        "AIM_ID": "",
        "AIM_CACHE_PATH": "/workspace/cache",
        "AIM_MODEL_ID": "Qwen/Qwen3-32B",
        "AIM_PROFILE_ID": "custom/qwen/qwen3/vllm-mi300x-fp8-tp1-latency",
    }


@pytest.mark.spec("PR-071")
@pytest.mark.parametrize("spec", [{"aimId": "../../etc"}, {"aimId": "a b"}, {"engineArgs": {"model": "x"}}])
def test_a_file_that_would_lead_elsewhere_is_not_written(spec: dict[str, Any]) -> None:
    with pytest.raises(InvalidProfileError):
        profile_file(profile(**spec))


@pytest.mark.spec("PR-070")
def test_a_profile_stands_for_a_template_and_a_model_under_its_own_name() -> None:
    found = profile(
        engineArgs={"quiet": None},
        containerEnv=[{"name": "A", "value": "1"}],
        caching={"enabled": True, "env": [{"name": "HF_TOKEN", "value": "x"}]},
        status={"sourceModel": MODEL, "resolvedNodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    )
    template, model = as_template(found), as_model(found)
    assert (template.kind, template.name, template.spec.model_name) == ("AIMProfile", "p", "qwen")
    assert template.status.profile is not None
    assert template.status.profile.engine_args == {"quiet": None}
    assert template.status.resolved_hardware is not None
    assert template.status.resolved_hardware.gpu is not None
    assert template.status.resolved_hardware.gpu.model == "MI300X"
    assert [one.source_uri for one in template.status.model_sources] == ["hf://Qwen/Qwen3-32B"]
    assert template.status.resolved_node_affinity is not None
    assert template.spec.caching is not None
    assert [one.name for one in template.spec.caching.env] == ["HF_TOKEN"]
    assert template.spec.metric is None, "the runtime takes it from the file"
    assert (model.kind, model.spec.image, model.status.status) == ("AIMProfile", IMAGE, "Ready")
    cpu = as_template(profile(acceleratorType="cpu", acceleratorModel=None, acceleratorCount=4))
    assert cpu.status.resolved_hardware is not None
    assert cpu.status.resolved_hardware.cpu is not None
    assert cpu.status.resolved_hardware.gpu is None


@pytest.mark.spec("PR-010", "PR-011")
@pytest.mark.parametrize(
    ("annotation", "spec", "by_profile", "fault"),
    [
        ("", {"model": {"name": "m"}}, False, ""),
        ("", {"profile": {"name": "p"}}, True, ""),
        ("profile", {"model": {"name": "m"}}, True, ""),
        ("template", {"profile": {"name": "p"}, "model": {"name": "m"}}, False, ""),
        ("whatever", {"profile": {"name": "p"}}, True, ""),
        (
            "profile",
            {"model": {"custom": {"baseImage": "x", "modelSources": [SOURCE], "hardware": {}}}},
            True,
            "custom",
        ),
        ("profile", {"model": {"name": "m"}, "template": {"name": "t"}}, True, "template"),
        ("", {"profile": {"name": "p"}, "overrides": {"metric": "latency"}}, True, "overrides"),
        ("", {"profile": {"name": "p"}, "template": {"name": "t"}}, True, "template"),
        ("", {"profile": {"selector": {"metric": "latency"}}}, True, "aimId"),
        ("", {"profile": {"selector": {"metric": "latency"}}, "model": {"name": "m"}}, True, ""),
        ("", {"profile": {"selector": {"modelRef": {"name": "m"}}}}, True, ""),
        ("", {"model": {"name": "m"}, "profileOverrides": {"engineArgs": {}}}, False, "profileOverrides"),
        ("profile", {"model": {"name": "m"}, "profileOverrides": {"engineArgs": {}}}, True, ""),
        ("template", {"profile": {"name": "p"}, "template": {"name": "t"}, "model": {"name": "m"}}, False, ""),
    ],
)
def test_the_annotation_decides_then_the_shape(
    annotation: str, spec: dict[str, Any], by_profile: bool, fault: str
) -> None:
    annotations = {"aim.eai.amd.com/reconciler-pipeline": annotation} if annotation else {}
    service = AIMService.model_validate({"metadata": {"name": "s", "annotations": annotations}, "spec": spec})
    assert uses_profile(service) == by_profile
    assert [fault in str(one) for one in pipeline_errors(service)] == ([True] if fault else [])
