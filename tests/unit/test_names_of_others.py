"""What one namespace can name: nothing of another one, and no name that another one gets."""

from collections.abc import Callable, Iterator

import pytest
from support.controlplane import own_definitions

from aim_domain import naming
from controller_runtime import JsonObject, Key
from controller_runtime.log.wire.subjects import Layout

OURS = "aim.eai.amd.com"
TWO_PARTS: list[Callable[[str, str], str]] = [
    lambda service, template: naming.dedicated_cache_name(template, service, f"uid-of-{service}"),
    lambda name, tag: naming.image_model_name(name, tag, f"host/{name}:{tag}"),
    lambda repository, tag: naming.catalogue_model_name("docker.io", repository, tag),
    # The first label of the host that KServe makes of an InferenceService.
    lambda name, namespace: f"{naming.inference_service_name(name, namespace)}-{namespace}",
    lambda namespace, name: Layout("aim").state("aimservices", Key(namespace, name)),
    lambda namespace, name: Layout("aim").log("aimservices", Key(namespace, name)),
]


@pytest.mark.spec("FW-598")
@pytest.mark.parametrize("name_of", TWO_PARTS)
def test_where_one_part_ends_makes_another_name(name_of: Callable[[str, str], str]) -> None:
    made = {name_of(*parts) for parts in (("a-b", "c"), ("a", "b-c"), ("a-b-c", "d"), ("b-c", "a"))}
    assert len(made) == 4


@pytest.mark.spec("FW-598")
@pytest.mark.parametrize("name_of", [naming.claim_name, naming.download_job_name, naming.check_size_job_name])
def test_an_object_of_the_same_name_that_comes_later_gets_names_of_its_own(name_of: Callable[[str, str], str]) -> None:
    assert name_of("a", "first") != name_of("a", "second")


def members(schema: JsonObject, path: str) -> Iterator[str]:
    for name, member in (schema.get("properties") or {}).items():
        yield f"{path}.{name}"
        yield from members(member, f"{path}.{name}")
    for inner in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, dict):
            yield from members(inner, path)


@pytest.mark.spec("FW-598", "FW-344")
def test_no_reference_of_a_namespaced_kind_can_name_a_namespace() -> None:
    """But that to the gateway, which admits routes of other namespaces itself."""
    found = {
        path
        for one in own_definitions()
        if one["spec"]["group"] == OURS and one["spec"]["scope"] == "Namespaced"
        for version in one["spec"]["versions"]
        for path in members(version["schema"]["openAPIV3Schema"]["properties"]["spec"], one["spec"]["names"]["kind"])
        if path.endswith(".namespace")
    }
    assert found == {"AIMRuntimeConfig.routing.gatewayRef.namespace", "AIMService.routing.gatewayRef.namespace"}
