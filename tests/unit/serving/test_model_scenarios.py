"""Acceptance scenarios of names and models (serving.md 19.1 and 19.2)."""

from typing import Any

import pytest
from support.builders import make
from support.serving import (
    TEAM,
    aim_service,
    children_of,
    condition_of,
    living,
    model,
    node,
    overall,
    plan_for,
    run,
    serving_cache,
    template,
    workload,
)

from aim_domain import kinds, labels
from aim_domain.naming import inference_service_name
from aim_domain.parts import MODELS, SERVICES
from controller_runtime import JsonObject

DUMMY = "ghcr.io/silogen/aim-dummy:0.1.10"
MADE = "aim-dummy-0-1-10-9bf80281"
BASE = "ghcr.io/silogen/aim-base:0.7.0"
ENDPOINT = "AWS_ENDPOINT_URL"
ONE_GPU: JsonObject = {"gpu": {"requests": 1, "model": "MI300X"}}


def custom(
    name: str,
    *,
    base: str = BASE,
    model_id: str = "my-org/my-model",
    uri: str = "s3://bucket/model",
    env: tuple[JsonObject, ...] = (),
    hardware: JsonObject | None = None,
    **spec: Any,
) -> JsonObject:
    source = {"modelId": model_id, "sourceUri": uri, **({"env": list(env)} if env else {})}
    described = {"baseImage": base, "modelSources": [source], "hardware": hardware or ONE_GPU}
    return aim_service(name, model={"custom": described}, **spec)


def models_after(*services: JsonObject) -> list[str]:
    """Names of all models once every service had its pass, and a second one."""
    cache = living(*services)
    names = [one["metadata"]["name"] for one in services]
    for name in (*names, *names):
        run(cache, name)
    return sorted(entry.key.name for entry in cache.cache.all(MODELS))


# Names


@pytest.mark.spec("AT-007", "AT-008", "AT-009", "SV-144")
@pytest.mark.parametrize(
    ("service", "namespace", "name"),
    [
        ("my-service", "my-namespace", "my-service-783d2dc1"),
        (
            "very-long-service-name-that-might-exceed-kubernetes-limits",
            "default",
            "very-long-service-name-that-might-ex-1080a608",
        ),
        ("qwen-chat", "n" * 42, "q-70a2a165"),
    ],
)
def test_names_of_workloads(service: str, namespace: str, name: str) -> None:
    assert [inference_service_name(service, namespace) for _ in range(3)] == [name] * 3
    assert len(f"{name}-predictor-{namespace}") <= 63


@pytest.mark.spec("AT-140", "SV-036", "SV-247", "SV-246", "FW-S44")
def test_a_name_of_eighty_characters() -> None:
    name = "s" * 80
    cache = serving_cache(aim_service(name, model={"name": "qwen"}), model(), template(), node())
    (template_cache,) = children_of(plan_for(cache, name), "AIMTemplateCache")
    assert template_cache["metadata"]["labels"][labels.SERVICE_NAME] == "s" * 63
    assert template_cache["metadata"]["labels"][labels.SERVICE] == "s" * 63
    assert template_cache["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "aim-service-controller"
    assert len(f"{inference_service_name(name, TEAM)}-predictor-{TEAM}") <= 63


# By image


@pytest.mark.spec("AT-017", "SV-066", "SV-067", "SV-068", "SV-070", "SV-071")
def test_a_model_is_made_for_an_image() -> None:
    plan = plan_for(serving_cache(aim_service(model={"image": DUMMY})))
    (child,) = plan.children
    metadata = child.body["metadata"]
    assert (child.body["kind"], metadata["namespace"], child.name) == ("AIMModel", TEAM, MADE)
    assert (child.owned, "ownerReferences" in metadata) == (False, False)
    assert metadata["labels"][labels.ORIGIN] == "auto-generated"
    assert (condition_of(plan, "ModelReady"), overall(plan)) == (("False", "CreatingModel"), "Pending")


@pytest.mark.spec("AT-018", "SV-070", "SV-239")
def test_the_made_model_outlives_its_service() -> None:
    cache = living(aim_service(model={"image": DUMMY}), make(kinds.NAMESPACE, TEAM))
    run(cache)
    (entry,) = cache.cache.all(MODELS)
    assert "ownerReferences" not in entry.raw["metadata"]
    cache.remove(SERVICES, "qwen-chat")
    plan = run(cache)
    assert plan.deletes == ()
    assert cache.cache.all(SERVICES) == []
    assert [one.raw for one in cache.cache.all(MODELS)] == [entry.raw]


@pytest.mark.spec("AT-023", "SV-066")
def test_each_tag_has_its_own_model() -> None:
    images = [f"ghcr.io/amd/llama-3-8b:{tag}" for tag in ("v1.0.0", "v2.0.0")]
    made = models_after(*(aim_service(f"s{place}", model={"image": image}) for place, image in enumerate(images)))
    assert len(made) == 2
    assert "llama-3-8b-v1-0-0-f15afcca" in made


# Described inline


@pytest.mark.spec("AT-026", "SV-073", "SV-075")
def test_two_services_share_one_custom_model() -> None:
    wanted: dict[str, Any] = {
        "base": DUMMY,
        "model_id": "shared/dedup-model",
        "uri": "hf://sshleifer/tiny-gpt2",
        "hardware": {"gpu": {"requests": 1}},
    }
    cache = living(custom("a", **wanted), custom("b", **wanted))
    run(cache, "a")
    assert plan_for(cache, "b").children == ()
    (entry,) = cache.cache.all(MODELS)
    assert entry.key.name == "shared-dedup-model-a1de6e29"
    assert entry.raw["metadata"]["labels"][labels.CUSTOM_MODEL] == "true"
    cache.put(MODELS, {**entry.raw, "status": {"status": "Ready"}, "metadata": {**entry.raw["metadata"]}})
    ready = serving_cache(custom("a", **wanted), custom("b", **wanted), {**entry.raw, "status": {"status": "Ready"}})
    for name in ("a", "b"):
        plan = plan_for(ready, name)
        assert plan.status is not None
        assert plan.status["resolvedModel"]["name"] == entry.key.name


@pytest.mark.spec("AT-027", "SV-073", "SV-076")
def test_endpoints_make_different_models() -> None:
    for name in ("minio-a", "minio-b"):
        env = ({"name": ENDPOINT, "value": f"https://{name}.example.com"},)
        (made,) = children_of(plan_for(serving_cache(custom(name, env=env)), name), "AIMModel")
        assert made["metadata"]["labels"][labels.SERVICE] == name
        assert made["spec"]["modelSources"][0]["env"] == list(env)
    endpoints = [({"name": ENDPOINT, "value": f"https://minio-{one}.example.com"},) for one in "ab"]
    assert len(models_after(custom("a", env=endpoints[0]), custom("b", env=endpoints[1]))) == 2


@pytest.mark.spec("AT-028", "SV-073")
def test_an_endpoint_out_of_a_secret_is_none() -> None:
    secret = ({"name": ENDPOINT, "valueFrom": {"secretKeyRef": {"name": "minio", "key": "url"}}},)
    for first, second in (((), secret), (secret, ())):
        assert len(models_after(custom("a", env=first), custom("b", env=second))) == 1


@pytest.mark.spec("AT-155", "AT-156", "SV-264")
def test_hardware_is_compared_by_what_it_says() -> None:
    two = {"gpu": {"requests": 2, "model": "MI300X"}}
    assert models_after(custom("a"), custom("b", hardware=two)) == [
        "my-org-my-model-167aa5cb",
        "my-org-my-model-6257467c",
    ]
    milli, plain = {"cpu": {"requests": "500m"}}, {"cpu": {"requests": "0.5"}}
    assert len(models_after(custom("a", hardware=milli), custom("b", hardware=plain))) == 1
    named = {"gpu": {"requests": 1, "model": "MI300X", "resourceName": "amd.com/gpu"}}
    assert len(models_after(custom("a"), custom("b", hardware=named))) == 1


@pytest.mark.spec("AT-139", "SV-071", "SV-143")
@pytest.mark.parametrize("own", [aim_service(model={"image": DUMMY}), custom("qwen-chat")])
def test_a_deleted_model_comes_again_under_its_name(own: JsonObject) -> None:
    cache = living(own, workload(own, image="kept:1"))
    run(cache)
    (entry,) = cache.cache.all(MODELS)
    cache.remove(MODELS, entry.key.name)
    again = plan_for(cache)
    assert [child["metadata"]["name"] for child in children_of(again, "AIMModel")] == [entry.key.name]
    assert children_of(again, "InferenceService") == []
