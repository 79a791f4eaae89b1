"""Each wrong start gives one line: in `/readyz`, once in the log, and as an Event where Kubernetes answers."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
from support.controlplane import RawApi, definitions, raw_api
from support.nats import connected, eventually
from support.reconcile_bench import Faults
from support.runtime_fixtures import MODELS, model, seen
from support.services import Platform, ServiceUnderTest, platform

from aim_domain.kinds import AIM_MODEL
from aim_local.nats import NatsServer, nats_binary
from aim_local.ports import free_port
from aim_local.supervision.process import Program, Supervised
from aim_packaging.keys import new_key
from controller_runtime import JsonObject, KubeClient
from controller_runtime.kube.config import Connection, NoCredentials
from controller_runtime.kube.errors import ApiError
from controller_runtime.manager.causes import REMEDIES, Cause
from controller_runtime.manager.troubles import of_refusals
from embedded_apiserver import ControlPlane

EVENTS = "/api/v1/namespaces/default/events"
ACCOUNT = "system:serviceaccount:default:aim-tiny"


async def trouble(service: ServiceUnderTest, cause: Cause) -> str:
    """The line of a trouble, as soon as `/readyz` shows it; the log has it once, in the same words."""

    def of(page: JsonObject) -> list[str]:
        return [one["message"] for one in page["troubles"] if one["reason"] == cause]

    page = await service.until("/readyz", lambda _, page: bool(of(page)))
    (line,) = of(page)

    def logged() -> int:
        return sum(one["message"] == line and one["reason"] == cause for one in service.lines if "reason" in one)

    await eventually(lambda: logged() > 0, "a line in the log")
    assert logged() == 1
    assert line.endswith(REMEDIES[cause])
    assert "\n" not in line
    assert service.tracebacks == []
    return str(line)


async def event(api: RawApi, cause: Cause) -> JsonObject:
    """The Event of a trouble, which is on the Pod."""

    def of(items: list[JsonObject]) -> list[JsonObject]:
        return [one for one in items if one["reason"] == cause]

    reply = await api.until(EVENTS, lambda found: bool(of(found.body["items"])))
    (found,) = of(reply.body["items"])
    about = found["involvedObject"]
    assert (about["kind"], about["name"], about["uid"]) == ("Pod", "pod-0", "uid-of-pod-0")
    assert found["type"] == "Warning"
    return found


async def reported(service: ServiceUnderTest, api: RawApi, cause: Cause) -> str:
    """The line of a trouble that Kubernetes hears of, too."""
    line = await trouble(service, cause)
    assert (await event(api, cause))["message"] == line
    assert await service.stop() == 0
    return line


@asynccontextmanager
async def other_broker(stage: Platform, extra: str = "") -> AsyncIterator[NatsServer]:
    async with NatsServer(extra_config=extra) as server:
        stage.nats = server
        yield server


@pytest.mark.spec("FW-583", "FW-584", "FW-585")
async def test_a_broker_that_is_not_there_is_named_although_the_service_is_ready(stage: Platform, api: RawApi) -> None:
    port = free_port()
    service = await stage.started(NATS_URL=f"nats://user:s3cret@127.0.0.1:{port}")
    line = await trouble(service, Cause.BROKER_UNREACHABLE)
    assert f"nats://***@127.0.0.1:{port}" in line
    assert (await event(api, Cause.BROKER_UNREACHABLE))["message"] == line
    await service.ready()
    async with NatsServer(port=port):
        await service.until("/readyz", lambda _, page: not page["troubles"])
        await eventually(
            lambda: any(one["message"] == "no longer in the way" for one in service.lines), "the end of it"
        )
    assert "s3cret" not in service.log


@pytest.mark.spec("FW-583", "FW-584", "FW-587")
async def test_credentials_that_the_broker_does_not_know_are_named(stage: Platform, api: RawApi) -> None:
    other, mine = new_key(), new_key()
    file = stage.folder / "user.nk"
    file.write_text(mine.seed)
    async with other_broker(stage, f"authorization {{ users: [{{nkey: {other.public}}}] }}"):
        service = await stage.started(NATS_CREDENTIALS_FILE=str(file))
        await reported(service, api, Cause.BROKER_CREDENTIALS)
    assert mine.seed not in service.log


@pytest.mark.spec("FW-583", "FW-584")
async def test_a_certificate_that_is_not_believed_is_named(stage: Platform, api: RawApi, tmp_path: Path) -> None:
    ca, crt, key = (tmp_path / name for name in ("ca.crt", "tls.crt", "tls.key"))
    served = trustme.CA().issue_cert("127.0.0.1")
    trustme.CA().cert_pem.write_to_path(str(ca))
    served.cert_chain_pems[0].write_to_path(str(crt))
    served.private_key_pem.write_to_path(str(key))
    async with NatsServer(extra_config=f'tls {{ cert_file: "{crt}", key_file: "{key}" }}') as server:
        service = await stage.started(NATS_URL=server.url.replace("nats:", "tls:"), NATS_CA_FILE=str(ca))
        await reported(service, api, Cause.BROKER_CERTIFICATE)


@pytest.mark.spec("FW-587", "FW-583")
@pytest.mark.parametrize("by", ["url", "ca"])
async def test_a_broker_that_offers_no_tls_is_sent_nothing_where_tls_is_asked_for(
    stage: Platform, api: RawApi, tmp_path: Path, by: str
) -> None:
    received = bytearray()

    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","version":"2.12.0","max_payload":1048576,"tls_available":true}\r\n')
        received.extend(await reader.read(4096))
        writer.close()

    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        at = f"user:s3cret@127.0.0.1:{server.sockets[0].getsockname()[1]}"
        asked = {"NATS_URL": f"tls://{at}"} if by == "url" else {"NATS_CA_FILE": str(tmp_path / "ca.crt")}
        service = await stage.started(**{"NATS_URL": f"nats://{at}", **asked})
        line = await reported(service, api, Cause.BROKER_CERTIFICATE)
    assert "offers no TLS" in line
    assert received == b""


@pytest.mark.spec("FW-583", "FW-584")
@pytest.mark.parametrize("of_account", [False, True], ids=["server", "account"])
async def test_a_broker_without_jetstream_is_named(stage: Platform, api: RawApi, *, of_account: bool) -> None:
    accounts = "accounts { A { users: [{user: a, password: b}] } }, no_auth_user: a"
    async with other_broker(stage, accounts if of_account else ""):
        if of_account:
            service = await stage.started()
            await reported(service, api, Cause.BROKER_NO_JETSTREAM)
    if not of_account:
        async with without_jetstream(stage.folder) as url:
            service = await stage.started(NATS_URL=url)
            await reported(service, api, Cause.BROKER_NO_JETSTREAM)


@pytest.mark.spec("FW-583", "FW-584")
async def test_a_subject_that_the_broker_denies_is_named(stage: Platform, api: RawApi) -> None:
    key = new_key()
    file = stage.folder / "user.nk"
    file.write_text(key.seed)
    may = 'publish: {deny: "$JS.API.STREAM.CREATE.AIM_HISTORY"}'
    async with other_broker(stage, f"authorization {{ users: [{{nkey: {key.public}, permissions: {{{may}}}}}] }}"):
        service = await stage.started(NATS_CREDENTIALS_FILE=str(file))
        line = await reported(service, api, Cause.BROKER_DENIES)
    assert "publishing to $js.api.stream.create.aim_history" in line.lower()


@pytest.mark.spec("FW-583", "FW-584", "FW-767")
async def test_a_stream_that_another_client_sealed_is_named_with_the_command_that_helps(
    stage: Platform, api: RawApi
) -> None:
    async with other_broker(stage) as server, connected(server.url) as bus:
        service = await stage.started(NATS_HEARTBEAT="1s")
        await service.ready()

        async def created() -> bool:
            return "AIM_HISTORY" in ((await bus.api("STREAM.NAMES")).get("streams") or ())

        await eventually(created, "the streams")
        config = (await bus.api("STREAM.INFO.AIM_HISTORY"))["config"]
        await bus.api("STREAM.UPDATE.AIM_HISTORY", {**config, "sealed": True})

        def named(page: JsonObject) -> list[str]:
            return [one["message"] for one in page["troubles"] if one["reason"] == Cause.BROKER_STREAM]

        (line,) = named(await service.until("/readyz", lambda _, page: bool(named(page))))
        assert line.startswith("stream AIM_HISTORY changed: sealed is true, not unset; ")
        assert line.endswith("nats stream rm AIM_HISTORY --force")
        assert (await event(api, Cause.BROKER_STREAM))["message"] == line
        # What the command does; the service creates the stream again.
        await bus.api("STREAM.DELETE.AIM_HISTORY")
        await service.until("/readyz", lambda status, page: status == 200 and not page["troubles"])
        assert not (await bus.api("STREAM.INFO.AIM_HISTORY"))["config"]["sealed"]


@pytest.mark.spec("FW-585", "FW-587")
@pytest.mark.parametrize(
    ("text", "named"), [(None, "cannot be read: No such file"), ("SUsecretnonsense", "is neither the seed")]
)
async def test_a_file_of_credentials_that_is_of_no_use_ends_the_process_with_a_line(
    stage: Platform, api: RawApi, text: str | None, named: str
) -> None:
    file = stage.folder / "user.nk"
    if text is not None:
        file.write_text(text)
    service = await stage.started(NATS_CREDENTIALS_FILE=str(file))
    assert await service.ended() == 1
    (line,) = [line for line in service.lines if line["level"] == "error"]
    assert f"--nats-credentials-file {file} {named}" in line["error"]
    assert service.tracebacks == []
    assert line["error"] in (await event(api, Cause.SETTINGS))["message"]
    assert text is None or text not in service.log


@pytest.mark.spec("FW-585", "FW-584", "FW-272")
async def test_settings_that_cannot_be_used_end_the_process_with_a_line_and_an_event(
    stage: Platform, api: RawApi
) -> None:
    service = await stage.started(NATS_REPLICAS="many")
    assert await service.ended() == 2
    assert "AIM_NATS_REPLICAS" in service.log
    assert "AIM_NATS_REPLICAS" in (await event(api, Cause.SETTINGS))["message"]


@pytest.mark.spec("FW-585", "FW-395")
@pytest.mark.parametrize(
    ("text", "named"), [("registries: [", "is not YAML"), ("registries: {docker.io: {mirror: []}}", "docker.io.mirror")]
)
async def test_a_file_of_registries_that_is_of_no_use_ends_the_process_with_a_line(
    stage: Platform, api: RawApi, text: str, named: str
) -> None:
    file = stage.folder / "registries.yaml"
    file.write_text(text)
    service = stage.service(module="aim_model_sync", REGISTRY_CONFIG=str(file))
    await service.start()
    assert await service.ended() == 1
    (line,) = [line for line in service.lines if line["level"] == "error"]
    assert service.tracebacks == []
    message = (await event(api, Cause.SETTINGS))["message"]
    for words in (line["error"], message):
        assert str(file) in words
        assert named in words
    assert "\n" not in message


@pytest.mark.spec("FW-583", "FW-584", "FW-586")
async def test_a_missing_definition_is_named_and_waited_for(tmp_path: Path) -> None:
    async with ControlPlane() as plane, platform(tmp_path, plane) as stage, raw_api(plane.url) as api:
        service = await stage.started()
        line = await trouble(service, Cause.DEFINITION_MISSING)
        assert "does not serve aimmodels.aim.eai.amd.com" in line
        assert (await event(api, Cause.DEFINITION_MISSING))["message"] == line
        plane.install_crds(definitions())
        await service.ready()
        await service.until("/readyz", lambda _, page: not page["troubles"])


@pytest.mark.spec("FW-583", "FW-586")
async def test_a_definition_that_lacks_a_field_is_named(stage: Platform, api: RawApi) -> None:
    await api.created(MODELS, model("qwen", "qwen:1"))
    newer = {**model("qwen", "qwen:1"), "status": {"ofTheNextRelease": "x"}}
    async with KubeClient(Connection(stage.plane.url, NoCredentials()), service="tiny") as kube:
        with pytest.raises(ApiError):
            await kube.apply(AIM_MODEL, newer, "aim-tiny", subresource="status")
        (found,) = of_refusals(kube.refusals.current(), optional=(), of_roles=())
    assert found.cause is Cause.DEFINITION_OLD
    assert "aimmodels.aim.eai.amd.com has no field .status.ofTheNextRelease" in found.line


@pytest.mark.spec("FW-583", "FW-584", "FW-586")
async def test_a_missing_permission_to_watch_or_write_is_named_until_it_is_there(tmp_path: Path) -> None:
    faults = Faults()
    async with ControlPlane(middleware=faults) as plane, platform(tmp_path, plane) as stage, raw_api(plane.url) as api:
        plane.install_crds(definitions())

        def deny(method: str, path: str, verb: str, where: str) -> None:
            words = f'User "{ACCOUNT}" cannot {verb} resource "configmaps" in API group "" {where}'
            faults.fail(method, path, 403, reason="Forbidden", message=f"configmaps is forbidden: {words}")

        deny("GET", "/api/v1/configmaps", "list", "at the cluster scope")
        service = await stage.started()
        line = await trouble(service, Cause.PERMISSION)
        assert line.startswith(
            "ServiceAccount default/aim-tiny may not list configmaps in the whole cluster, "
            "which the ClusterRole aim-tiny should grant"
        )
        assert (await event(api, Cause.PERMISSION))["message"] == line
        faults.rules.clear()
        await service.ready()
        await service.until("/readyz", lambda _, page: not page["troubles"])
        deny("PATCH", "/configmaps/qwen", "patch", 'in the namespace "default"')
        await api.created(MODELS, model("qwen", "qwen:1"))
        line = await trouble(service, Cause.PERMISSION)
        assert "may not patch configmaps in namespace default" in line
        faults.rules.clear()
        await seen(api, "qwen", "qwen:1")
        await service.until("/readyz", lambda _, page: not page["troubles"])


@pytest.mark.spec("FW-583", "FW-585")
@pytest.mark.parametrize(("code", "cause"), [(401, Cause.API_CREDENTIALS), (0, Cause.API_UNREACHABLE)])
async def test_an_api_server_that_refuses_or_is_not_there_is_named(tmp_path: Path, code: int, cause: Cause) -> None:
    faults = Faults([(lambda _: True, 401, {"code": 401, "reason": "Unauthorized", "message": "Unauthorized"})])
    plane = ControlPlane(free_port(), middleware=faults)
    async with NatsServer() as nats:
        stage = Platform(plane, nats, tmp_path)
        try:
            if code:
                async with plane:
                    line = await trouble(await stage.started(), cause)
            else:
                line = await trouble(await stage.started(), cause)
                assert str(plane.url) in line
            assert "API server" in line
        finally:
            await stage.close()


@asynccontextmanager
async def without_jetstream(folder: Path) -> AsyncIterator[str]:
    """A broker that only passes messages on; its URL."""
    port, config = free_port(), folder / "plain.conf"
    config.write_text(f'host: "127.0.0.1"\nport: {port}\n')

    async def listening() -> str:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError as error:
            return str(error)
        writer.close()
        return ""

    program = Program("nats", [str(nats_binary()), "-c", str(config)], os.environ, listening)
    server = Supervised(program, folder / "plain.log", start_timeout=15.0, stop_patience=10.0)
    await server.start()
    try:
        yield f"nats://127.0.0.1:{port}"
    finally:
        await server.stop()
