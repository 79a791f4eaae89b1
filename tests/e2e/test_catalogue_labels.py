"""Models of images whose labels have each of the shapes that published images have, through the whole platform."""

import pytest
from support.stack import OWN, Platform, status_of

from aim_local.registry import DEMO_IMAGES
from aim_local.registry.images import DemoImage, DeploymentStyle
from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

BY_STYLE = {
    image.style: image for image in DEMO_IMAGES if image.repository.startswith("amdenterpriseai/") and image.profiles
}
PRESENT = "MI300X"
"""The GPU of the platform's nodes."""


async def templates_of(platform: Platform, namespace: str, model: str) -> list[JsonObject]:
    found = (await platform.api.get(f"{OWN}/namespaces/{namespace}/aimservicetemplates")).body["items"]
    return [one for one in found if one["spec"]["modelName"] == model]


def recommended(image: DemoImage) -> list[tuple[str, int, str, str]]:
    return sorted((one.gpu, one.gpu_count, one.metric, one.precision) for one in image.profiles)


@pytest.mark.spec("DI-105", "DI-110", "DI-119", "DI-267", "AC-12", "AC-45")
async def test_each_shape_of_label_becomes_discovered_templates(platform: Platform) -> None:
    assert set(BY_STYLE) == set(DeploymentStyle)
    assert len({image.prefix for image in BY_STYLE.values()}) == 2
    await platform.namespace("catalogue")
    collection = f"{OWN}/namespaces/catalogue/aimmodels"
    for style, image in BY_STYLE.items():
        model = {
            "apiVersion": "aim.eai.amd.com/v1alpha1",
            "kind": "AIMModel",
            "metadata": {"name": style.value, "namespace": "catalogue"},
            "spec": {"image": f"{image.repository}:{image.tags[0]}"},
        }
        await platform.api.created(collection, model)
    for style, image in BY_STYLE.items():
        found = await platform.until(f"{collection}/{style.value}", lambda obj: status_of(obj) == "Ready", 60)
        assert found["status"]["imageMetadata"]["model"]["canonicalName"] == image.model_id
        made = await templates_of(platform, "catalogue", style.value)
        wanted = [(one["spec"], one["spec"]["hardware"]["gpu"]) for one in made]
        assert recommended(image) == sorted(
            (gpu["model"], gpu["requests"], spec["metric"], spec["precision"]) for spec, gpu in wanted
        )
        for one in made:
            is_present = one["spec"]["hardware"]["gpu"]["model"] == PRESENT
            assert status_of(one) == ("Ready" if is_present else "NotAvailable")
            assert bool(one["status"].get("profile")) is is_present
