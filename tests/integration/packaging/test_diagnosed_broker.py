"""What `aim doctor` says of a broker that is there, and of one that does not let it in, on real servers."""

import asyncio
from pathlib import Path

import pytest
import trustme
from support.nats import connected

from aim_cli.installation.doctor import Finding, Mark
from aim_cli.installation.examining import of_broker
from aim_local.nats import NatsServer
from aim_local.ports import HOST, free_port
from aim_packaging.keys import new_key
from controller_runtime.log.broker.streams import ensure_streams


async def diagnosed(url: str) -> list[Finding]:
    return await asyncio.to_thread(of_broker, url, [])


async def bad(url: str) -> str:
    """The only thing that is found, which is bad, and what to do."""
    (found,) = await diagnosed(url)
    assert (found.about, found.mark) == ("broker", Mark.BAD)
    assert "\n" not in found.what
    assert "kubectl port-forward" in found.remedy or "cannot be reached" not in found.what
    return f"{found.what}; {found.remedy}"


@pytest.mark.spec("FW-710")
async def test_a_broker_that_is_not_there_without_what_is_secret_in_its_address() -> None:
    port = free_port()
    said = await bad(f"nats://user:s3cret@{HOST}:{port}")
    assert f"nats://***@{HOST}:{port} cannot be reached" in said
    assert "Connect call failed" in said


@pytest.mark.spec("FW-710")
async def test_a_key_that_the_broker_does_not_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known, mine = new_key(), new_key()
    file = tmp_path / "user.nk"
    file.write_text(mine.seed, encoding="utf-8")
    monkeypatch.setenv("AIM_NATS_CREDENTIALS_FILE", str(file))
    async with NatsServer(extra_config=f"authorization {{ users: [{{nkey: {known.public}}}] }}") as server:
        said = await bad(server.url)
    assert "refuses the credentials" in said
    assert "AIM_NATS_CREDENTIALS_FILE" in said
    file.unlink()
    assert f"{file} cannot be read" in await bad(server.url)


@pytest.mark.spec("FW-710")
async def test_a_certificate_of_another_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other, crt, key = (tmp_path / name for name in ("other.crt", "tls.crt", "tls.key"))
    served = trustme.CA().issue_cert(HOST)
    trustme.CA().cert_pem.write_to_path(str(other))
    served.cert_chain_pems[0].write_to_path(str(crt))
    served.private_key_pem.write_to_path(str(key))
    monkeypatch.setenv("AIM_NATS_CA_FILE", str(other))
    async with NatsServer(extra_config=f'tls {{ cert_file: "{crt}", key_file: "{key}" }}') as server:
        said = await bad(server.url.replace("nats:", "tls:"))
    assert "TLS with the message broker" in said
    assert "AIM_NATS_CA_FILE" in said


@pytest.mark.spec("FW-710")
async def test_a_broker_where_nobody_publishes() -> None:
    async with NatsServer() as server:
        assert "there is no AIM_STATE" in {one.what for one in await diagnosed(server.url) if one.mark is Mark.BAD}
        async with connected(server.url) as bus:
            await bus.wait_connected()
            await ensure_streams(bus)
        unheard = [one for one in await diagnosed(server.url) if one.about == "freshness"]
    assert [one.mark for one in unheard] == [Mark.BAD]
    assert {"aimservices", "httproutes", "facts/serving"} <= set(
        unheard[0].what.removeprefix("no service has published ").split(", ")
    )
    assert "kaiwoconfigs" not in unheard[0].what


@pytest.mark.spec("FW-768")
async def test_a_changed_stream_is_bad() -> None:
    async with NatsServer() as server, connected(server.url) as bus:
        await bus.wait_connected()
        await ensure_streams(bus)
        changes: dict[str, dict[str, object]] = {
            "AIM_STATE": {"sealed": True},
            "AIM_HISTORY": {"max_msgs": 20, "max_age": 3600 * 10**9},
        }
        for stream, changed in changes.items():
            config = (await bus.api(f"STREAM.INFO.{stream}"))["config"]
            await bus.api(f"STREAM.UPDATE.{stream}", {**config, **changed})
        found = [one for one in await diagnosed(server.url) if one.about == "streams"]
    assert [(one.mark, one.what) for one in found[:2]] == [
        (Mark.BAD, "AIM_STATE was changed: sealed is true, not unset"),
        (Mark.BAD, "AIM_HISTORY was changed: max_msgs is 20, not unlimited"),
    ]
    assert found[0].remedy.endswith("nats stream rm AIM_STATE --force")
    assert found[2].mark is Mark.OK
