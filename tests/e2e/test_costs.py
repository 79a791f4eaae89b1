"""What an AIMService costs in writes: counts, which no machine changes much."""

import pytest
from support.stack import Platform, at_rest

pytestmark = pytest.mark.asyncio(loop_scope="session")

IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"


@pytest.mark.spec("FW-120", "FW-518", "RT-174", "SV-299")
async def test_what_the_first_service_and_each_of_ten_more_cost(platform: Platform) -> None:
    """From nothing but a model in the catalogue: cache, artifact, volume, download, workload and route."""
    await platform.namespace("costs")
    before = await at_rest(platform)
    await platform.running(await platform.service("costs", "first", model={"image": IMAGE}))
    cold = await at_rest(platform) - before
    events = cold.pop("events")
    assert (cold.total() <= 26, events <= 14) == (True, True), (cold, events)

    before = await at_rest(platform)
    for number in range(10):
        await platform.running(await platform.service("costs", f"more-{number}", model={"image": IMAGE}))
    warm = await at_rest(platform) - before
    events = warm.pop("events")
    assert warm.pop("aimartifacts", 0) <= 10, "when it was last used"
    assert (warm.total() <= 65, events <= 35) == (True, True), (warm, events)
