"""Derived names and label values, against the published reference values."""

import pytest

from aim_domain import naming
from aim_domain.naming import HashSource, NamingError, Structured, derive_name, label_value
from controller_runtime.core import EnvVar

SERVICE = "very-long-service-name-that-might-exceed-kubernetes-limits"
BASE = "ghcr.io/silogen/aim-base:0.7.0"
ARTIFACT_UID = "11111111-2222-3333-4444-555555555555"


def hardware(**members: HashSource) -> dict[str, HashSource]:
    return dict(members)


def gpu(requests: int, **others: HashSource) -> dict[str, HashSource]:
    return {"requests": requests, "resourceName": "amd.com/gpu", **others}


@pytest.mark.spec("FW-234", "FW-233", "FW-S45")
@pytest.mark.parametrize(
    ("sources", "digits"),
    [(["ml-team"], "a04542d9"), (["default"], "1080a608"), (["ns"], "e2c6bafc"), (["a", "b"], "2444e7a2")],
)
def test_reference_hashes(sources: list[str], digits: str) -> None:
    assert naming.hash_of(sources) == digits


@pytest.mark.spec("FW-234", "FW-231")
def test_a_name_without_hash_source_has_no_suffix() -> None:
    assert derive_name(["my-service", "temp-cache"]) == "my-service-temp-cache"
    assert derive_name(["a"], ["b"], hash_length=0) == "a"


@pytest.mark.spec("FW-230", "AR-020")
@pytest.mark.parametrize(
    ("text", "segment"),
    [
        ("My_Model.Name", "my-model-name"),
        ("--a//b--", "a--b"),
        ("ä", ""),
        ("x" * 62 + "-y", "x" * 62),
        ("hf://amd/x", "hf---amd-x"),
    ],
)
def test_segments_are_sanitised(text: str, segment: str) -> None:
    assert naming.sanitise_segment(text) == segment


@pytest.mark.spec("FW-230", "FW-231", "AR-020", "AR-021")
def test_an_empty_segment_becomes_part() -> None:
    assert derive_name(["ü", "x"]) == "part-x"


@pytest.mark.spec("FW-231")
@pytest.mark.parametrize(("parts", "maximum"), [([], 63), (["a"], 0), (["a"], 64)])
def test_unusable_input_is_refused(parts: list[str], maximum: int) -> None:
    with pytest.raises(NamingError):
        derive_name(parts, max_length=maximum)


@pytest.mark.spec("FW-232", "AR-021")
def test_the_first_of_the_longest_parts_shrinks() -> None:
    assert derive_name(["aaaa", "bbbb"], max_length=8) == "aaa-bbbb"
    assert derive_name(["aa-a", "bb"], max_length=6) == "aa-bb"
    assert derive_name(["a", "b", "c"], max_length=2) == "a-b-c"


@pytest.mark.spec("FW-233", "AR-022")
@pytest.mark.parametrize(
    ("source", "encoded"),
    [
        ("<&>\u2028\u2029ü", '"\\u003c\\u0026\\u003e\\u2028\\u2029ü"'),
        (7, "7"),
        (None, "null"),
        ([], "null"),
        ({"b": 1, "a": {"d": "x", "c": 2}}, '["a",["c",2,"d","x"],"b",1]'),
        (["b", "a"], '["b","a"]'),
        (EnvVar(name="A", value=""), '{"name":"A"}'),
        (Structured({"downloadFilter": {"include": ["*"]}}), '{"downloadFilter":{"include":["*"]}}'),
    ],
)
def test_hash_sources_are_encoded(source: HashSource, encoded: str) -> None:
    assert naming.encode_hash_source(source) == encoded


@pytest.mark.spec("FW-236", "SV-259", "SV-034", "FW-237", "FW-S45")
@pytest.mark.parametrize(
    ("service", "namespace", "name"),
    [
        ("svc", "ns", "svc-e2c6bafc"),
        ("my-service", "my-namespace", "my-service-783d2dc1"),
        ("qwen-chat", "ml-team", "qwen-chat-a04542d9"),
        (SERVICE, "default", "very-long-service-name-that-might-ex-1080a608"),
        ("qwen-chat", "n" * 42, "q-70a2a165"),
    ],
)
def test_inference_service_names(service: str, namespace: str, name: str) -> None:
    assert naming.inference_service_name(service, namespace) == name


@pytest.mark.spec("FW-236")
def test_a_long_namespace_leaves_no_inference_service_name() -> None:
    with pytest.raises(NamingError, match=f"{'n' * 43} has 43 characters.*63"):
        naming.inference_service_name("qwen-chat", "n" * 43)


@pytest.mark.spec("FW-236", "SV-259", "FW-237")
def test_names_of_caches_profiles_and_artifacts() -> None:
    assert naming.shared_cache_name("llama-template", "my-namespace") == "llama-template-783d2dc1"
    assert naming.shared_cache_name_by_scope("llama-template", "my-namespace", "Namespace") == (
        "llama-template-bd818a0e"
    )
    assert naming.dedicated_cache_name("llama-template", "my-svc", "service-uid-a") == "llama-template-my-svc-dc5ac241"
    assert naming.service_profile_name("qwen-chat") == "qwen-chat-custom-profile-8a837eb7"
    assert naming.claim_name("basic-lifecycle-hf", ARTIFACT_UID) == "basic-lifecycle-hf-cache-16b81fda"
    assert naming.claim_name("a" * 60, ARTIFACT_UID) == "a" * 48 + "-cache-16b81fda"
    assert naming.download_job_name("basic-lifecycle-hf", ARTIFACT_UID) == "basic-lifecycle-hf-download-16b81fda"
    assert naming.check_size_job_name("basic-lifecycle-hf", ARTIFACT_UID) == "basic-lifecycle-hf-check-size-16b81fda"
    assert naming.catalogue_model_name("ghcr.io", "org/My_Model.Name", "v1.0.0") == "org-my-model-name-v1-0-0-d858ec"
    assert naming.autoscaler_name("svc-e2c6bafc") == "keda-hpa-svc-e2c6bafc-predictor"


@pytest.mark.spec("FW-236", "SV-259", "FW-237")
@pytest.mark.parametrize(
    ("image_name", "tag", "image", "name"),
    [
        ("llama-3-8b", "v1.0.0", "ghcr.io/amd/llama-3-8b:v1.0.0", "llama-3-8b-v1-0-0-f15afcca"),
        ("aim-dummy", "0.1.10", "ghcr.io/silogen/aim-dummy:0.1.10", "aim-dummy-0-1-10-9bf80281"),
        ("model", "latest", "ghcr.io/amd/model", "model-latest-962085c9"),
        ("model", "abc123", "ghcr.io/amd/model@sha256:abc123", "model-abc123-58c6ba56"),
        ("mistral", "latest", "registry.example.com:5000/models/mistral:latest", "mistral-latest-cc9c0d55"),
    ],
)
def test_names_of_image_models(image_name: str, tag: str, image: str, name: str) -> None:
    assert naming.image_model_name(image_name, tag, image) == name


@pytest.mark.spec("FW-236", "SV-259")
@pytest.mark.parametrize(
    ("sources", "name"),
    [
        ([hardware(gpu=gpu(1, model="MI300X"))], "my-org-my-model-6257467c"),
        ([hardware(gpu=gpu(2, model="MI300X"))], "my-org-my-model-167aa5cb"),
        ([hardware(gpu=gpu(1, minVram="68719476736"))], "my-org-my-model-70e902e4"),
        ([hardware(gpu=gpu(1))], "my-org-my-model-73203fcd"),
        ([hardware(cpu={"requests": "0.5"})], "my-org-my-model-b1c20c55"),
        (
            [hardware(gpu=gpu(1, model="MI300X"), cpu={"requests": "4", "limits": "8"})],
            "my-org-my-model-39383734",
        ),
        (["https://minio-1.local", hardware(gpu=gpu(1, model="MI300X"))], "my-org-my-model-df7fbf63"),
    ],
)
def test_names_of_custom_models(sources: list[HashSource], name: str) -> None:
    inputs: list[HashSource] = [BASE, "my-org/my-model", "s3://bucket/model", *sources]
    assert derive_name(["my-org/my-model"], inputs) == name


@pytest.mark.spec("FW-236", "SV-259")
def test_name_of_a_custom_model_from_the_hub() -> None:
    model = "Meta-Llama/Llama-3.1-70B"
    sources: list[HashSource] = [BASE, model, f"hf://{model}", hardware(gpu=gpu(4, model="MI300X"))]
    assert derive_name([model], sources) == "meta-llama-llama-3-1-70b-fcb9668e"


@pytest.mark.spec("FW-236", "SV-259")
@pytest.mark.parametrize(
    ("parts", "sources", "name"),
    [
        (["base", "ovr", "fp16"], ["precision", "fp16"], "base-ovr-fp16-fe0f"),
        (
            ["my-template", "ovr", "mi300x", "4gpu", "fp8", "throughput"],
            ["gpu", "MI300X", "count", 4, "precision", "fp8", "metric", "throughput"],
            "my-template-ovr-mi300x-4gpu-fp8-throughput-b295",
        ),
        (["base", "ovr", "hw"], ["hw", {"minVram": "68719476736"}], "base-ovr-hw-1345"),
    ],
)
def test_names_of_derived_templates(parts: list[str], sources: list[HashSource], name: str) -> None:
    assert derive_name(parts, sources, hash_length=4) == name


@pytest.mark.spec("FW-233", "FW-236", "AR-022")
@pytest.mark.parametrize(
    ("env", "storage_class", "name"),
    [
        ([], "", "hf---sshleifer-tiny-gpt2-fc6a9647bb"),
        ([EnvVar(name="HF_TOKEN", value="my-token")], "", "hf---sshleifer-tiny-gpt2-8b6a4bfd16"),
        ([], "fast-storage", "hf---sshleifer-tiny-gpt2-a47c9b839d"),
    ],
)
def test_names_of_artifacts(env: list[EnvVar], storage_class: str, name: str) -> None:
    uri = "hf://sshleifer/tiny-gpt2"
    assert derive_name([uri], [uri, env, storage_class], hash_length=10) == name


@pytest.mark.spec("FW-233", "FW-236")
def test_a_reference_to_a_secret_is_hashed_in_api_order() -> None:
    uri = "hf://amd/Llama-3.1-8B-Instruct"
    env = EnvVar.model_validate(
        {"valueFrom": {"secretKeyRef": {"key": "token", "name": "hf-credentials"}}, "name": "HF_TOKEN"}
    )
    name = derive_name([uri.replace(".", "-")], [uri, [env], ""], hash_length=10)
    assert name == "hf---amd-llama-3-1-8b-instruct-e867cdfd62"


@pytest.mark.spec("FW-235", "AR-026")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("amd/Llama-3.1-8B-Instruct", "amd_llama-3.1-8b-instruct"),
        ("a !? b", "a_b"),
        ("-x-", "x"),
        ("x" * 62 + "-y", "x" * 62),
    ],
)
def test_label_values(text: str, value: str) -> None:
    assert label_value(text) == value


@pytest.mark.spec("FW-235")
def test_nothing_left_for_a_label() -> None:
    assert naming.optional_label_value("__") is None
    with pytest.raises(NamingError, match="'__'"):
        label_value("__")
