"""A service whose broker is a leaf, and whose streams lie in the domain of another one."""

from pathlib import Path

import pytest
from support.controlplane import RawApi
from support.nats import connected
from support.runtime_fixtures import MODELS, model, seen
from support.services import Platform

from aim_local.nats import NatsServer
from aim_local.ports import free_port
from controller_runtime.log.wire.subjects import DEFAULT_LAYOUT
from embedded_apiserver import ControlPlane


def in_domain(folder: Path, name: str, leaves: str) -> str:
    """Configuration of a broker whose streams have a domain of their own."""
    store = f'store_dir: "{folder / name}", sync_interval: always, max_file_store: 1TB'
    return f"server_name: {name}\njetstream {{ {store}, domain: {name} }}\nleafnodes {{ {leaves} }}"


@pytest.mark.spec("FW-419", "FW-273")
async def test_streams_of_another_domain_are_used_through_a_leaf(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path
) -> None:
    port = free_port()
    hub = NatsServer(tmp_path / "hub", extra_config=in_domain(tmp_path, "hub", f'listen: "127.0.0.1:{port}"'))
    remote = f'remotes: [{{ url: "nats-leaf://127.0.0.1:{port}" }}]'
    leaf = NatsServer(tmp_path / "leaf", extra_config=in_domain(tmp_path, "leaf", remote))
    async with hub, leaf:
        stage = Platform(controlplane, leaf, tmp_path)
        try:
            service = await stage.started(NATS_JETSTREAM_DOMAIN="hub", DIRECT_WATCH="false")
            await service.ready()
            await api.created(MODELS, model("qwen", "qwen:1"))
            await seen(api, "qwen", "qwen:1")
            assert (await service.page("/debug/cache"))["tinymodels"]["source"] == "bus"

            again = await stage.started("pod-1", NATS_JETSTREAM_DOMAIN="hub", DIRECT_WATCH="false")
            await again.ready()
            assert list((await again.page("/debug/cache"))["tinymodels"]["keys"]) == ["default/qwen"]
        finally:
            await stage.close()
        async with connected(hub.url) as there, connected(leaf.url) as here:
            await there.wait_connected()
            await here.wait_connected()
            names = {DEFAULT_LAYOUT.state_stream, DEFAULT_LAYOUT.history_stream, DEFAULT_LAYOUT.decisions_stream}
            assert set((await there.api("STREAM.NAMES"))["streams"]) == names
            assert not (await here.api("STREAM.NAMES"))["streams"]
