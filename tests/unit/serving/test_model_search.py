"""Which model a service gets, and what it says when there is none (serving.md section 6)."""

from typing import Any

import pytest
from support.builders import condition, make
from support.serving import (
    TEAM,
    aim_service,
    children_of,
    cluster_model,
    condition_of,
    living,
    message_of,
    model,
    node,
    overall,
    plan_for,
    run,
    serving_cache,
    template,
    template_cache,
    workload,
)

from aim_domain import AIMModel, AIMService, kinds, labels
from aim_domain.naming import image_model_name
from aim_domain.parts import CLUSTER_MODELS, INFERENCE_SERVICES, MODELS
from aim_serving.model import ImageNameError, matching_model, parse_image_name
from controller_runtime import JsonObject, Part

DUMMY = "ghcr.io/silogen/aim-dummy:0.1.10"


def by_name(name: str, **status: object) -> JsonObject:
    return aim_service(model={"name": name}, status=dict(status) or None)


def custom(base: str = "ghcr.io/silogen/aim-base:0.7.0", endpoint: str = "", **hardware: object) -> JsonObject:
    source: JsonObject = {"modelId": "my-org/my-model", "sourceUri": "s3://bucket/model"}
    if endpoint:
        source["env"] = [{"name": "AWS_ENDPOINT_URL", "value": endpoint}]
    wanted = hardware or {"gpu": {"requests": 1, "model": "MI300X"}}
    return aim_service(model={"custom": {"baseImage": base, "modelSources": [source], "hardware": wanted}})


# By name


@pytest.mark.spec("SV-058", "SV-227", "SV-231", "AT-011", "FW-361")
def test_namespace_wins_by_name() -> None:
    plan = plan_for(serving_cache(by_name("shared-name"), model("shared-name"), cluster_model("shared-name")))
    assert plan.status is not None
    reference = plan.status["resolvedModel"]
    assert (reference["scope"], reference["kind"]) == ("Namespace", "aim.eai.amd.com/v1alpha1/AIMModel")


@pytest.mark.spec("SV-058", "SV-227", "AT-012", "FW-361")
def test_cluster_model_by_name() -> None:
    plan = plan_for(serving_cache(by_name("only-cluster"), cluster_model("only-cluster")))
    assert plan.status is not None
    assert plan.status["resolvedModel"]["scope"] == "Cluster"
    assert "namespace" not in plan.status["resolvedModel"]
    assert condition_of(plan, "ModelReady") == ("True", "ModelResolved")


@pytest.mark.spec("SV-059", "SV-214", "SV-223", "AT-013")
def test_missing_model() -> None:
    plan = plan_for(serving_cache(by_name("nonexistent-model")))
    assert overall(plan) == "Failed"
    assert condition_of(plan, "ModelReady") == ("False", "ModelNotFound")
    assert condition_of(plan, "ConfigValid") == ("False", "ReferenceNotFound")
    assert "nonexistent-model" in message_of(plan, "ModelReady")
    assert TEAM in message_of(plan, "ModelReady")
    assert (plan.children, plan.retry) == ((), None)


@pytest.mark.spec("SV-060", "FW-019")
def test_a_stale_view_declares_nothing_missing() -> None:
    cache = serving_cache(by_name("qwen"))
    cache.make_stale(MODELS)
    plan = plan_for(cache)
    assert condition_of(plan, "ModelReady") == ("False", "ViewStale")
    assert plan.retry is not None
    assert plan.children == ()


@pytest.mark.spec("SV-081")
def test_no_model_at_all() -> None:
    plan = plan_for(serving_cache(aim_service(model={"name": "  "})))
    assert condition_of(plan, "ModelReady") == ("False", "ModelNotFound")
    assert condition_of(plan, "ConfigValid") == ("False", "InvalidSpec")


@pytest.mark.spec("FW-076", "SV-282")
@pytest.mark.parametrize(("status", "quoted"), [("NotAvailable", True), ("Failed", True), ("Progressing", False)])
def test_a_model_and_a_template_that_cannot_be_used_are_quoted(status: str, quoted: bool) -> None:
    ready = condition("Ready", False, "GPUNotAvailable", "no node has GPU MI355X")
    unusable = {**model(), "status": {"status": status, "conditions": [ready]}}
    named = {**template("mine"), "status": {"status": status, "conditions": [ready]}}
    words = ": GPUNotAvailable: no node has GPU MI355X"
    plan = plan_for(serving_cache(by_name("qwen"), unusable))
    assert (words in message_of(plan, "ModelReady")) is quoted
    plan = plan_for(serving_cache(aim_service(model={"name": "qwen"}, template={"name": "mine"}), model(), named))
    assert (words in message_of(plan, "TemplateReady")) is quoted


@pytest.mark.spec("SV-216", "SV-220", "SV-221", "SV-227", "AT-014", "AT-015")
@pytest.mark.parametrize(
    ("status", "value"),
    [("Progressing", "Pending"), ("Pending", "Pending"), ("Failed", "Failed"), ("Degraded", "Failed"), ("", "Pending")],
)
def test_a_model_that_is_not_ready(status: str, value: str) -> None:
    plan = plan_for(serving_cache(by_name("qwen"), model(status=status), template()))
    assert (condition_of(plan, "ModelReady"), overall(plan)) == (("False", "ModelNotReady"), value)
    assert plan.status is not None
    assert "resolvedModel" not in plan.status


@pytest.mark.spec("SV-216")
def test_the_service_says_why_its_model_failed() -> None:
    failed = model(status="Degraded")
    failed["status"]["conditions"] = [condition("Ready", False, "ImageNotFound", "tag 7.7.7 does not exist")]
    plan = plan_for(serving_cache(by_name("qwen"), failed, template()))
    assert plan.status is not None
    message = next(one["message"] for one in plan.status["conditions"] if one["type"] == "ModelReady")
    assert message.endswith("is degraded: ImageNotFound: tag 7.7.7 does not exist")


# Stored


STORED = {"name": "cached-model", "namespace": TEAM, "scope": "Namespace", "kind": "k", "uid": "u"}


@pytest.mark.spec("SV-054", "SV-056", "AT-024", "FW-111")
def test_a_ready_stored_model_is_kept() -> None:
    service = by_name("different-name", resolvedModel=STORED)
    plan = plan_for(serving_cache(service, model("cached-model"), model("different-name", "other/image:1")))
    assert plan.status is not None
    assert plan.status["resolvedModel"]["name"] == "cached-model"


@pytest.mark.spec("SV-055", "SV-230", "AT-025")
@pytest.mark.parametrize("former", [[model("cached-model", status="Pending")], []])
def test_a_stored_model_that_is_not_ready_is_looked_for_anew(former: list[JsonObject]) -> None:
    service = by_name("ready-model", resolvedModel=STORED)
    plan = plan_for(serving_cache(service, *former, model("ready-model", "other/image:1")))
    assert plan.status is not None
    assert plan.status["resolvedModel"]["name"] == "ready-model"


@pytest.mark.spec("SV-055")
def test_a_stored_model_that_cannot_be_read_stops_the_search() -> None:
    stored = {**STORED, "namespace": "", "scope": "Cluster"}
    cache = serving_cache(by_name("ready-model", resolvedModel=stored), model("ready-model"))
    cache.make_stale(CLUSTER_MODELS)
    plan = plan_for(cache)
    assert plan.children == ()
    ready = condition_of(plan, "ModelReady")
    assert ready is not None
    assert (ready[0], plan.retry is None) == ("False", False), ready


# By image


@pytest.mark.spec("SV-061", "SV-065", "AT-016")
def test_an_existing_model_with_the_image_is_used() -> None:
    plan = plan_for(serving_cache(aim_service(), model("existing")))
    assert plan.status is not None
    assert plan.status["resolvedModel"]["name"] == "existing"
    assert children_of(plan, "AIMModel") == []


@pytest.mark.spec("SV-062", "AT-019")
def test_namespace_wins_by_image() -> None:
    plan = plan_for(serving_cache(aim_service(), model("a"), cluster_model("b"), cluster_model("c")))
    assert plan.status is not None
    assert plan.status["resolvedModel"]["name"] == "a"


@pytest.mark.spec("SV-062", "FW-019")
@pytest.mark.parametrize("part", [MODELS, CLUSTER_MODELS], ids=str)
def test_no_model_is_made_for_an_image_while_models_may_be_unknown(part: Part[Any]) -> None:
    cache = serving_cache(aim_service())
    cache.make_stale(part)
    plan = plan_for(cache)
    assert condition_of(plan, "ModelReady") == ("False", "ViewStale")
    assert plan.retry is not None
    assert children_of(plan, "AIMModel") == []


@pytest.mark.spec("SV-063", "AT-020", "SV-P06")
def test_several_models_with_one_image() -> None:
    plan = plan_for(serving_cache(aim_service(), model("a1"), model("a2")))
    assert (condition_of(plan, "ModelReady"), overall(plan)) == (("False", "MultipleModelsFound"), "Failed")
    assert "a1" in message_of(plan, "ModelReady")
    assert "a2" in message_of(plan, "ModelReady")
    assert plan.retry is None
    assert plan.children == ()


@pytest.mark.spec("SV-061", "AT-158", "MS-P32")
def test_another_spelling_of_the_image() -> None:
    service = aim_service(model={"image": "docker.io/a/b:1"})
    in_cluster = cluster_model("catalogue", "a/b:1")
    plan = plan_for(serving_cache(service, in_cluster))
    assert plan.status is not None
    assert plan.status["resolvedModel"]["name"] == "catalogue"
    plan = plan_for(serving_cache(service, in_cluster, model("own", "docker.io/a/b:1")))
    assert plan.status is not None
    assert plan.status["resolvedModel"]["name"] == "own"


@pytest.mark.spec("SV-064", "SV-214", "AT-021")
def test_an_image_that_is_no_reference() -> None:
    plan = plan_for(serving_cache(aim_service(model={"image": ":::invalid"})))
    assert (condition_of(plan, "ModelReady"), overall(plan)) == (("False", "InvalidImageReference"), "Failed")
    assert condition_of(plan, "ConfigValid") == ("False", "InvalidSpec")
    assert ":::invalid" in message_of(plan, "ModelReady")
    assert plan.children == ()


@pytest.mark.spec("RC-026", "SV-066", "SV-069", "AT-022")
def test_the_made_model_takes_over_how_to_pull() -> None:
    service = aim_service(
        model={"image": DUMMY},
        serviceAccountName="my-sa",
        runtimeConfigName="rc",
        imagePullSecrets=[{"name": "regcred"}],
        env=[{"name": "A", "value": "1"}],
    )
    config = make(kinds.AIM_RUNTIME_CONFIG, "rc", namespace=TEAM, spec={})
    (made,) = plan_for(serving_cache(service, config)).children
    assert made.name == "aim-dummy-0-1-10-9bf80281"
    assert made.body["spec"] == {
        "image": DUMMY,
        "serviceAccountName": "my-sa",
        "runtimeConfigName": "rc",
        "imagePullSecrets": [{"name": "regcred"}],
    }


@pytest.mark.spec("CC-306")
@pytest.mark.parametrize("named", [{"name": ""}, {"image": ""}, {"name": " "}])
def test_an_empty_name_names_nothing(named: JsonObject) -> None:
    plan = plan_for(serving_cache(aim_service(model=named)))
    assert condition_of(plan, "ConfigValid") == ("False", "InvalidSpec")
    assert message_of(plan, "ConfigValid").startswith("spec.model names no model")
    assert (plan.children, overall(plan)) == ((), "Failed")


@pytest.mark.spec("SV-267")
def test_a_taken_name_is_left_alone() -> None:
    other = model("aim-dummy-0-1-10-9bf80281", "something/else:1")
    plan = plan_for(serving_cache(aim_service(model={"image": DUMMY}), other))
    assert condition_of(plan, "ModelReady") == ("False", "AlreadyExists")
    assert plan.children == ()


@pytest.mark.spec("SV-034", "SV-037", "SV-066", "SV-259")
@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("ghcr.io/amd/llama-3-8b:v1.0.0", "llama-3-8b-v1-0-0-f15afcca"),
        (DUMMY, "aim-dummy-0-1-10-9bf80281"),
        ("ghcr.io/amd/model", "model-latest-962085c9"),
        ("ghcr.io/amd/model@sha256:abc123", "model-abc123-58c6ba56"),
        ("registry.example.com:5000/models/mistral:latest", "mistral-latest-cc9c0d55"),
    ],
)
def test_names_of_made_models(uri: str, name: str) -> None:
    parsed = parse_image_name(uri)
    assert image_model_name(parsed.name, parsed.tag, uri) == name


@pytest.mark.spec("SV-037")
@pytest.mark.parametrize("uri", ["", ":::invalid", "a/b:", "a/b@sha256", "a/b@sha256:", "ghcr.io/@@@"])
def test_images_without_a_name(uri: str) -> None:
    with pytest.raises(ImageNameError):
        parse_image_name(uri)


@pytest.mark.spec("SV-103", "SV-143", "SV-071", "SV-P42")
def test_a_running_service_keeps_its_image_when_its_model_is_gone() -> None:
    service = aim_service()
    cache = living(service, model(), template(), node())
    run(cache)
    stored = cache.cache.all(MODELS)[0]
    cache.cache.absorb_deleted(MODELS, stored.key, stored.version.uid, 0.0)
    raw = workload(service)
    cache.put(INFERENCE_SERVICES, raw)
    plan = plan_for(cache)
    assert [child["metadata"]["labels"][labels.ORIGIN] for child in children_of(plan, "AIMModel")] == ["auto-generated"]
    assert condition_of(plan, "ModelReady") == ("False", "CreatingModel")
    assert condition_of(plan, "TemplateReady") == ("True", "Resolved")
    assert children_of(plan, "InferenceService") == []
    explicit = aim_service(template={"name": "qwen3-lat"})
    without = serving_cache(
        explicit, template(), workload(explicit, image="kept/image:1"), template_cache("qwen3-lat-a04542d9")
    )
    assert [child["kind"] for child in children_of(plan_for(without), "AIMModel")] == ["AIMModel"]
    assert children_of(plan_for(without), "InferenceService") == [], "what only the model knows would vanish from it"
    without.put(MODELS, model(resources={"limits": {"memory": "1Gi"}}))
    (applied,) = children_of(plan_for(without), "InferenceService")
    assert applied["spec"]["predictor"]["containers"][0]["resources"]["limits"]["memory"] == "1Gi"


# Described inline


@pytest.mark.spec("SV-075", "SV-259", "SV-264", "AT-030")
@pytest.mark.parametrize(
    ("hardware", "endpoint", "name"),
    [
        ({}, "", "my-org-my-model-6257467c"),
        ({}, "https://minio-1.local", "my-org-my-model-df7fbf63"),
        ({}, "https://minio-2.local", "my-org-my-model-bc532829"),
        ({"gpu": {"requests": 2, "model": "MI300X"}}, "", "my-org-my-model-167aa5cb"),
        ({"gpu": {"requests": 1, "minVram": "64Gi"}}, "", "my-org-my-model-70e902e4"),
        ({"gpu": {"requests": 1}}, "", "my-org-my-model-73203fcd"),
        ({"gpu": {"requests": 1, "resourceName": "amd.com/gpu"}}, "", "my-org-my-model-73203fcd"),
        ({"cpu": {"requests": "500m"}}, "", "my-org-my-model-b1c20c55"),
        ({"cpu": {"requests": "0.5"}}, "", "my-org-my-model-b1c20c55"),
        (
            {"gpu": {"requests": 1, "model": "MI300X"}, "cpu": {"requests": "4", "limits": "8"}},
            "",
            "my-org-my-model-39383734",
        ),
    ],
)
def test_names_of_custom_models(hardware: JsonObject, endpoint: str, name: str) -> None:
    (made,) = plan_for(serving_cache(custom(endpoint=endpoint, **hardware))).children
    assert made.name == name


@pytest.mark.spec("FW-364")
@pytest.mark.parametrize("service", [aim_service(), custom()], ids=["by image", "described"])
def test_a_model_that_is_made_for_a_service_is_of_its_namespace(service: JsonObject) -> None:
    (made,) = plan_for(serving_cache(service)).children
    assert (made.part, made.namespace, made.body["kind"]) == (MODELS, TEAM, "AIMModel")


@pytest.mark.spec("SV-076", "SV-077", "SV-078", "SV-079", "SV-P45")
def test_the_made_custom_model() -> None:
    plan = plan_for(serving_cache(custom(cpu={"requests": "500m"})))
    (made,) = plan.children
    assert not made.owned
    assert made.body["spec"]["image"] == "ghcr.io/silogen/aim-base:0.7.0"
    assert made.body["spec"]["custom"] == {"hardware": {"cpu": {"requests": "500m"}}}
    assert made.body["metadata"]["labels"][labels.CUSTOM_MODEL] == "true"
    assert made.body["metadata"]["labels"][labels.SERVICE] == "qwen-chat"
    assert condition_of(plan, "ModelReady") == ("False", "CreatingModel")
    assert "my-org/my-model" in message_of(plan, "ModelReady")


@pytest.mark.spec("SV-074")
def test_of_several_models_that_fit_the_first_by_name_is_taken() -> None:
    wanted = AIMService.model_validate(custom()).spec.model.custom
    assert wanted is not None
    (made,) = plan_for(serving_cache(custom())).children
    fitting = [
        AIMModel.model_validate(make(kinds.AIM_MODEL, name, namespace=TEAM, spec=made.body["spec"]))
        for name in ("b", "a", "c")
    ]
    for order in (fitting, fitting[::-1]):
        found = matching_model(order, wanted)
        assert found is not None
        assert found.name == "a"


@pytest.mark.spec("SV-073", "SV-074", "AT-029", "AT-157", "SV-P07", "SV-P08")
@pytest.mark.parametrize(
    ("change", "fits"),
    [
        ({}, True),
        ({"image": "ghcr.io/silogen/aim-base:0.8.0"}, False),
        ({"modelSources": [{"modelId": "my-org/my-model", "sourceUri": "s3://bucket/other"}]}, False),
        ({"custom": {"hardware": {"gpu": {"requests": 2, "model": "MI300X"}}}}, False),
        ({"custom": None}, False),
        ({"modelSources": [{"modelId": "other/model", "sourceUri": "s3://bucket/model"}]}, False),
        (
            {
                "modelSources": [
                    {"modelId": "my-org/my-model", "sourceUri": "s3://bucket/model"},
                    {"modelId": "my-org/second", "sourceUri": "s3://bucket/second"},
                ]
            },
            False,
        ),
        (
            {
                "modelSources": [
                    {
                        "modelId": "my-org/my-model",
                        "sourceUri": "s3://bucket/model",
                        "env": [{"name": "AWS_ENDPOINT_URL", "value": "https://minio"}],
                    }
                ]
            },
            False,
        ),
        (
            {
                "modelSources": [
                    {
                        "modelId": "my-org/my-model",
                        "sourceUri": "s3://bucket/model",
                        "size": "1Gi",
                        "env": [
                            {
                                "name": "AWS_ENDPOINT_URL",
                                "valueFrom": {"secretKeyRef": {"name": "minio", "key": "url"}},
                            }
                        ],
                    }
                ]
            },
            True,
        ),
    ],
)
def test_which_model_is_the_described_one(change: JsonObject, fits: bool) -> None:
    spec = {
        "image": "ghcr.io/silogen/aim-base:0.7.0",
        "modelSources": [{"modelId": "my-org/my-model", "sourceUri": "s3://bucket/model"}],
        "custom": {"hardware": {"gpu": {"requests": 1, "model": "MI300X"}}},
        **change,
    }
    existing = [
        make(kinds.AIM_MODEL, name, namespace=TEAM, spec=spec, status={"status": "Ready"})
        for name in ("zz", "hand-made")
    ]
    plan = plan_for(serving_cache(custom(), *existing))
    assert plan.status is not None
    assert (plan.status.get("resolvedModel") or {}).get("name") == ("hand-made" if fits else None)
    assert len(children_of(plan, "AIMModel")) == (0 if fits else 1)
