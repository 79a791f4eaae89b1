"""The discovery Job in every field, and what its output is read as (sections 10 and 12)."""

from typing import Any

import pytest
from support.discovery_cache import MI300X, discovery_cluster, model, template

from aim_discovery.templates.gpu import hardware_summary, resolved_hardware
from aim_discovery.templates.job import DiscoveryInputs
from aim_discovery.templates.output import InvalidOutputError, first_profile, profile_and_sources
from aim_domain import Hardware, ProfileMetadata, ProfileType, TemplateSpec
from aim_domain.parts import TEMPLATES
from controller_runtime import JsonObject


def inputs(model_name: str, image: str, **spec: Any) -> DiscoveryInputs:
    return DiscoveryInputs(model_name, image, TemplateSpec.model_validate(spec), (), (), "")


@pytest.mark.spec("DI-215", "DI-216", "DI-220", "DI-221", "DI-223", "DI-P24", "DI-P26")
def test_names_and_hashes() -> None:
    image = "ghcr.io/test/image:latest"
    assert inputs("test-model", image).job_name("my-template") == "discover-my-template-aa5fe4dc"
    wanted = inputs("test-model", image, metric="latency", precision="fp8")
    assert wanted.job_name("my-template") == "discover-my-template-be538c70"
    dummy = inputs("test-model-discovery-namespace", "ghcr.io/silogen/aim-dummy:0.1.8", hardware=MI300X)
    assert dummy.spec_hash == "ee237b0c576eb704"
    assert dummy.job_name("test-template-discovery-namespace") == "discover-test-template-discovery-namespace-ee237b0c"
    assert len(dummy.job_name("x" * 253)) <= 63
    assert "--" in dummy.job_name("x" * 44 + "-y"), "the cut leaves a hyphen, as in names that exist"


@pytest.mark.spec(
    "RC-137",
    "FW-341",
    "FW-342",
    "DI-224",
    "DI-225",
    "DI-228",
    "DI-230",
    "DI-231",
    "DI-232",
    "DI-233",
    "DI-234",
    "DI-236",
    "DI-237",
    "DI-238",
    "DI-229",
    "DI-052",
    "DI-053",
    "AC-48",
    "FW-276",
    "FW-S40",
    "DI-P22",
)
def test_the_job_has_exactly_these_fields() -> None:
    secrets = [{"name": "a"}, {"name": "b"}]
    env = [{"name": "AIM_GPU_MODEL", "value": "MI308X"}, {"name": "X", "value": "1"}]
    resources = {"requests": {"cpu": "64"}}
    owner = model(imagePullSecrets=secrets[:1], serviceAccountName="of-model", env=env, resources=resources)
    own = template(
        imagePullSecrets=secrets,
        serviceAccountName="of-template",
        env=[{"name": "X", "value": "2"}],
        hardware=MI300X,
        metric="latency",
        profileId="p",
    )
    (child,) = discovery_cluster(owner, own).run(TEMPLATES, "tpl").children
    labels = {
        "app.kubernetes.io/component": "discovery",
        "aim.eai.amd.com/template": "tpl",
        "aim.eai.amd.com/service-template.name": "tpl",
    }
    assert child.body["metadata"]["labels"] == {
        **labels,
        "app.kubernetes.io/name": "aim-discovery",
        "app.kubernetes.io/managed-by": "aim-controller",
    }
    assert child.body["spec"] == {
        "backoffLimit": 0,
        "ttlSecondsAfterFinished": 60,
        "activeDeadlineSeconds": 3600,
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "restartPolicy": "Never",
                "imagePullSecrets": secrets,
                "serviceAccountName": "of-template",
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [
                    {
                        "name": "discovery",
                        "image": "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5",
                        "args": ["dry-run", "--format=json"],
                        "env": [
                            {"name": "AIM_LOG_LEVEL_ROOT", "value": "CRITICAL"},
                            {"name": "AIM_LOG_LEVEL", "value": "CRITICAL"},
                            {"name": "AIM_GPU_MODEL", "value": "MI308X"},
                            {"name": "X", "value": "2"},
                            {"name": "AIM_METRIC", "value": "latency"},
                            {"name": "AIM_GPU_COUNT", "value": "1"},
                            {"name": "AIM_PROFILE_ID", "value": "p"},
                        ],
                        "securityContext": {
                            "allowPrivilegeEscalation": False,
                            "runAsNonRoot": True,
                            "capabilities": {"drop": ["ALL"]},
                        },
                        "resources": {
                            "requests": {"cpu": "100m", "memory": "256Mi"},
                            "limits": {"cpu": "2", "memory": "2Gi"},
                        },
                    }
                ],
            },
        },
    }


@pytest.mark.spec("DI-227", "DI-P27")
def test_long_names_become_label_values() -> None:
    name = "long-" * 20 + "name"
    (child,) = discovery_cluster(model(), template(name)).run(TEMPLATES, name).children
    assert len(child.body["metadata"]["labels"]["aim.eai.amd.com/template"]) <= 63


@pytest.mark.spec("DI-261", "DI-262", "DI-265", "AC-49")
@pytest.mark.parametrize(
    "log",
    [
        '[{"a": 1}]',
        '[{"a": 1}, {"a": 2}]\n',
        'INFO [runtime] up\n[{"a": 1}]\nINFO done ]\n',
        '[{"a": 0}]\n[{"a": 1}]\n[]\n[1]\n',
        'INFO [x] {"b": [{"c": 1}]}\n[\n  {\n    "a": 1\n  }\n]\n',
    ],
)
def test_the_array_is_found_in_the_log(log: str) -> None:
    assert first_profile(log) == {"a": 1}


@pytest.mark.spec("DI-263", "DI-264", "AC-49")
@pytest.mark.parametrize(
    "log", ["", "[]", "{}", '{"a": 1}', '[{"a": [{"b": 1}]}', "nothing [here]", '[{"a": NaN}]', "[1]"]
)
def test_anything_else_is_no_result(log: str) -> None:
    with pytest.raises(InvalidOutputError):
        first_profile(log)


def element(**profile: Any) -> JsonObject:
    return {"profile": profile, "models": []}


@pytest.mark.spec("CC-093", "CC-P04", "DI-267", "DI-268", "DI-269", "DI-274", "DI-275", "DI-277", "AC-50", "DI-031")
def test_the_element_maps_to_profile_and_sources() -> None:
    raw = element(
        metadata={"gpu": "MI300X", "gpu_count": 0, "metric": "speed", "type": "tuned", "extra": 1},
        engine_args={"flag": None, "n": 1},
        env_vars={"A": 1, "B": True, "C": "x", "D": 0.5},
    )
    profile, sources = profile_and_sources(raw, None)
    assert profile == {
        "metadata": {"gpu": "MI300X", "gpuCount": 0, "type": "unoptimized"},
        "engine_args": {"flag": None, "n": 1},
        "env_vars": {"A": "1", "B": "true", "C": "x", "D": "0.5"},
        "originalDiscoveryOutput": raw,
    }
    assert sources == []
    for known in ("optimized", "general", "preview", "unoptimized"):
        found, _ = profile_and_sources(element(metadata={"type": known}), None)
        assert found["metadata"]["type"] == known
    assert profile_and_sources(raw, ProfileType.PREVIEW)[0]["metadata"]["type"] == "preview"
    assert "engine_args" not in profile_and_sources(element(engine_args=None), None)[0]


@pytest.mark.spec("CC-P16", "DI-276")
def test_an_oversized_original_is_left_out() -> None:
    profile, _ = profile_and_sources({"profile": {}, "script": "x" * (128 << 10)}, None)
    assert "originalDiscoveryOutput" not in profile


@pytest.mark.spec("DI-270", "DI-271", "DI-272", "DI-P21")
@pytest.mark.parametrize(
    ("size", "text"), [(0.5, "512Mi"), (16.06, "17244293693"), (0, None), (-1, None), (None, None)]
)
def test_sizes_of_sources(size: float | None, text: str | None) -> None:
    models = [{"name": "a/b", "source": "s3://bucket/x", **({} if size is None else {"size_gb": size})}]
    _, (source,) = profile_and_sources({"models": models}, None)
    assert source.get("size") == text


@pytest.mark.spec("CC-093", "CC-P04", "DI-321", "DI-322", "DI-324", "DI-325", "DI-326", "DI-327", "DI-328", "DI-330")
@pytest.mark.parametrize(
    ("spec", "found", "resolved", "summary"),
    [
        ({}, {"gpu": "MI300X", "gpuCount": 2}, {"gpu": {"requests": 2, "model": "MI300X"}}, "2 x MI300X"),
        (MI300X, {"gpuCount": 0}, {"gpu": {"requests": 0, "model": "MI300X"}}, "MI300X"),
        (MI300X, {}, {"gpu": {"requests": 1, "model": "MI300X"}}, "1 x MI300X"),
        (
            {"gpu": {"requests": 1, "minVram": "64Gi"}},
            {"gpu": "MI300X"},
            {"gpu": {"requests": 1, "minVram": "64Gi"}},
            "1 x GPU",
        ),
        ({"cpu": {"requests": "4"}}, {}, {"cpu": {"requests": "4"}}, "CPU"),
        ({}, {}, None, ""),
    ],
)
def test_hardware_is_discovered_first_and_specified_second(
    spec: JsonObject, found: JsonObject, resolved: JsonObject | None, summary: str
) -> None:
    given = TemplateSpec.model_validate({"hardware": spec} if spec else {})
    result = resolved_hardware(given, ProfileMetadata.model_validate(found))
    if result is not None and "gpu" in result:
        assert result["gpu"].pop("resourceName") == "amd.com/gpu"
    assert result == resolved
    assert hardware_summary(None if result is None else Hardware.model_validate(result)) == summary
