"""Which change brought the last pass of an object, told by the service and by the decision record."""

import pytest
from support.controlplane import RawApi
from support.runtime_fixtures import MODELS, model, seen
from support.services import Platform


@pytest.mark.spec("FW-503")
async def test_a_service_says_which_change_brought_the_last_pass(stage: Platform, api: RawApi) -> None:
    service = await stage.started()
    await service.ready()
    await api.created(MODELS, model("m", "image:1"))
    await seen(api, "m", "image:1")
    where = "/debug/why-woken?controller=tiny&namespace=default&name=m"
    # Its fact, its ConfigMap, its own status: which of them came last is a matter of speed.
    page = await service.until(where, lambda status, _: status == 200)
    assert page["object"] == "default/m"
    assert page["wokenBy"].split()[0] in {"AIMModel", "ConfigMap", "Fact"}
    missing = await service.ask("/debug/why-woken?controller=tiny&namespace=default&name=none")
    assert missing == (
        404,
        "this process has not reconciled the object: check controller, namespace and name, and which replica leads",
    )
