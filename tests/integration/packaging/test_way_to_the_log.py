"""How commands that read the event log find the broker, its CA and the domain of its streams (FW-628)."""

import asyncio
from datetime import datetime
from pathlib import Path

import pytest
import trustme
from support.nats import TEST_LIMITS, connected, eventually

from aim_cli.errors import UnreachableError
from aim_cli.installation.bus_state import bus_state
from aim_cli.log.connecting import history
from aim_cli.running import waited
from aim_local.nats import NatsServer
from aim_local.ports import HOST, free_port
from controller_runtime.log.broker.connection import BusSettings, connect
from controller_runtime.log.broker.streams import ensure_streams
from controller_runtime.log.wire.subjects import DEFAULT_LAYOUT

STREAMS = [DEFAULT_LAYOUT.state_stream, DEFAULT_LAYOUT.history_stream, DEFAULT_LAYOUT.decisions_stream]


@pytest.mark.spec("FW-628")
async def test_the_broker_s_certificate_is_judged_by_the_authority_of_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca, crt, key = (tmp_path / name for name in ("ca.crt", "tls.crt", "tls.key"))
    authority = trustme.CA()
    served = authority.issue_cert(HOST)
    authority.cert_pem.write_to_path(str(ca))
    served.cert_chain_pems[0].write_to_path(str(crt))
    served.private_key_pem.write_to_path(str(key))
    async with NatsServer(extra_config=f'tls {{ cert_file: "{crt}", key_file: "{key}" }}') as server:
        url = server.url.replace("nats:", "tls:")
        async with connect(BusSettings.of_urls(url, "test", ca_file=ca)) as bus:
            await bus.wait_connected()
            await ensure_streams(bus, DEFAULT_LAYOUT, TEST_LIMITS)
        with pytest.raises(UnreachableError, match="certificate"):
            await asyncio.to_thread(waited, bus_state(url))
        monkeypatch.setenv("AIM_NATS_CA_FILE", str(ca))
        assert [one.name for one in (await bus_state(url)).streams] == STREAMS


@pytest.mark.spec("FW-628")
async def test_streams_of_another_domain_are_read_through_a_leaf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    hub = NatsServer(tmp_path / "hub", extra_config=in_domain(tmp_path, "hub", f'listen: "{HOST}:{port}"'))
    remote = f'remotes: [{{ url: "nats-leaf://{HOST}:{port}" }}]'
    leaf = NatsServer(tmp_path / "leaf", extra_config=in_domain(tmp_path, "leaf", remote))
    async with hub, leaf:
        async with connected(hub.url) as there:
            await there.wait_connected()
            await ensure_streams(there, DEFAULT_LAYOUT, TEST_LIMITS)
        monkeypatch.setenv("AIM_NATS_JETSTREAM_DOMAIN", "hub")

        async def dropped() -> dict[str, datetime]:
            async with history(leaf.url) as log:
                return await log.complete_since()

        async def reached() -> bool:
            try:
                return await asyncio.to_thread(waited, dropped()) == {}
            except UnreachableError:
                return False

        await eventually(reached, "the leaf has found its hub")


def in_domain(folder: Path, name: str, leaves: str) -> str:
    """Configuration of a broker whose streams have a domain of their own."""
    store = f'store_dir: "{folder / name}", sync_interval: always, max_file_store: 1TB'
    return f"server_name: {name}\njetstream {{ {store}, domain: {name} }}\nleafnodes {{ {leaves} }}"
