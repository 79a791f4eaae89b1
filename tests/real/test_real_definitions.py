"""The definitions: ours are accepted as they are, and the embedded control plane's neighbours are upstream's."""

import pytest
from support.controlplane import CRDS, RawApi

from aim_local.assets import find_toolset
from aim_local.assets.reduced import differing, files
from controller_runtime import JsonObject
from embedded_apiserver import EXTERNAL_CRDS
from embedded_apiserver.controlplane import load_crds

pytestmark = pytest.mark.asyncio(loop_scope="session")

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OWN = load_crds(CRDS)


@pytest.mark.parametrize("crd", OWN, ids=[crd["spec"]["names"]["kind"] for crd in OWN])
async def test_own_definition_is_accepted_without_a_warning(api: RawApi, crd: JsonObject) -> None:
    name = crd["metadata"]["name"]
    reply = await api.apply(
        f"{DEFINITIONS}/{name}", crd, "aim-test", dryRun="All", fieldValidation="Strict", force="true"
    )
    assert (reply.status, reply.headers.get("Warning")) == (200, None), reply.body
    conditions = (await api.get(f"{DEFINITIONS}/{name}")).body["status"]["conditions"]
    assert {one["type"]: one["status"] for one in conditions} == {"NamesAccepted": "True", "Established": "True"}


async def test_embedded_definitions_are_upstreams() -> None:
    assert differing(EXTERNAL_CRDS, files(find_toolset())) == [], "run `make external-crds`"
