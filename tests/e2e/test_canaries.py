"""Credentials are nowhere but where their users put them (FW-343): marked ones, searched for in all that is told.

Hosts that are asked with them answer with what they were sent, as an error of theirs: whoever repeats such an answer
tells a credential.
"""

import asyncio
import base64
import gzip
import json
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import nats
import pytest
from aiohttp import web
from nats.errors import TimeoutError as NoMessageError
from support.nats import eventually
from support.stack import OWN, Platform, started_platform, status_of
from typer.testing import CliRunner

from aim_cli.__main__ import app
from aim_cli.errors import Exit
from aim_domain.services import SERVICES
from controller_runtime import JsonObject
from controller_runtime.log.broker.connection import inbox_prefix

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECRET: Final = "kanarienvogel-im-geheimnis"
"""Begins the values that stand in Secrets."""
PLAIN: Final = "kanarienvogel-im-freien"
"""Begins what somebody wrote into an object itself: that is told with the object, and only with it."""
IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
NAMESPACE = "canaries"
STREAMS: Final = ("AIM_STATE", "AIM_HISTORY", "AIM_DECISIONS")


class Echo:
    """A registry, a hub and a collector of traces in one; refuses everybody with what they sent."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.traces = b""
        self.host = ""

    async def answer(self, request: web.Request) -> web.Response:
        if request.path == "/v1/traces":
            self.traces += await request.read()
            return web.Response(body=b"", content_type="application/x-protobuf")
        sent = request.headers.get("Authorization", "")
        self.asked.append(sent)
        if request.path == "/token":
            return web.json_response({"token": f"{SECRET}-of-realm"})
        if not sent and request.path.startswith("/v2/"):
            challenge = f'Bearer realm="http://{self.host}/token",service="echo"'
            return web.json_response({}, status=401, headers={"WWW-Authenticate": challenge})
        bare = sent.partition(" ")[2]
        reported = f"{sent}; {bare} and {_decoded(bare)} may not"
        errors = {"errors": [{"code": "DENIED", "message": reported, "detail": reported}], "error": reported}
        return web.json_response(errors, status=403, headers={"X-Error-Code": "GatedRepo", "X-Error-Message": reported})


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        return text


@asynccontextmanager
async def echoing() -> AsyncIterator[Echo]:
    echo, app = Echo(), web.Application()
    app.router.add_route("*", "/{path:.*}", echo.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        echo.host = f"127.0.0.1:{runner.addresses[0][1]}"
        yield echo
    finally:
        await runner.cleanup()


def forms(text: str) -> tuple[bytes, ...]:
    """The text, and what base64 makes of it behind zero, one and two other bytes."""
    found = [text.encode()]
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + text.encode())
        # What the neighbours have a part in is left out.
        found.append(encoded[4 if before else 0 : -4])
    return tuple(found)


def where(reported: Mapping[str, bytes], text: str) -> dict[str, bytes]:
    """The surroundings of the text's first place, by what tells it."""
    found = {}
    for name, content in reported.items():
        places = [place for place in map(content.find, forms(text)) if place >= 0]
        if places:
            found[name] = content[max(0, min(places) - 300) : min(places) + 100]
    return found


async def seeded(platform: Platform, echo: Echo) -> None:
    """Objects that use all that may hold a credential."""
    await platform.namespace(NAMESPACE)
    for namespace in (NAMESPACE, "aim-system"):
        login = {"auths": {echo.host: {"username": "reader", "password": f"{SECRET}-password"}}}
        made = (
            ("pull", "kubernetes.io/dockerconfigjson", {".dockerconfigjson": json.dumps(login)}),
            ("tokens", "Opaque", {"token": f"{SECRET}-token", "unused": f"{SECRET}-unused"}),
        )
        for name, kind, data in made:
            body = {
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "type": kind,
                "stringData": data,
            }  # fmt: skip
            await platform.api.created(f"/api/v1/namespaces/{namespace}/secrets", body)
    token = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "token"}}}
    plain = {"name": "GREETING", "value": f"{PLAIN}-value"}
    pull = {"imagePullSecrets": [{"name": "pull"}]}
    image = f"{echo.host}/team/model:1.0.0"
    source: JsonObject = {"registry": echo.host, "images": ["team/model"], "versions": [">=0.1.0"], **pull}
    endpoint = {"name": "HF_ENDPOINT", "value": f"http://{echo.host}"}
    for kind, name, spec in (
        ("AIMClusterModelSource", "canaries", source),
        ("AIMClusterModel", "canaries", {"image": image, **pull}),
        ("AIMModel", "canaries", {"image": image, "env": [token], **pull}),
        ("AIMArtifact", "canaries", {"sourceUri": "hf://org/model", "env": [token, endpoint]}),
        ("AIMService", "chat", {"model": {"image": IMAGE}, "env": [token, plain], **pull}),
    ):
        scope = "" if kind.startswith("AIMCluster") else f"namespaces/{NAMESPACE}/"
        metadata = {"name": name, **({"namespace": NAMESPACE} if scope else {})}
        body = {"apiVersion": "aim.eai.amd.com/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
        await platform.api.created(f"{OWN}/{scope}{kind.lower()}s", body)


async def streamed(url: str) -> dict[str, bytes]:
    """All that the broker keeps, by stream."""
    seed, authority = os.environ.get("AIM_NATS_CREDENTIALS_FILE"), os.environ.get("AIM_NATS_CA_FILE")
    trusted = None if authority is None else ssl.create_default_context(cafile=authority)
    client = await nats.connect(
        url, nkeys_seed=seed, tls=trusted, inbox_prefix=inbox_prefix("aim"), allow_reconnect=False
    )
    found = {}
    try:
        streams = client.jetstream()
        for name in STREAMS:
            info = await streams.stream_info(name)
            read = await streams.subscribe(">", stream=name, ordered_consumer=True)
            parts = []
            for _ in range(info.state.messages):
                try:
                    message = await read.next_msg(5)
                except NoMessageError:
                    break
                parts += [message.subject.encode(), repr(message.headers).encode(), message.data]
                if not message.metadata.num_pending:
                    break
            await read.unsubscribe()
            found[f"stream {name}"] = b"\n".join(parts)
    finally:
        await client.close()
    return found


async def reported(platform: Platform, echo: Echo) -> dict[str, bytes]:
    """All that is told of the platform, but not by the objects that users and services write."""
    stack, found = platform.stack, {"traces": echo.traces}
    for service in SERVICES:
        for page in ("metrics", "debug/queue", "debug/world", "readyz"):
            async with platform.api.session.get(f"{stack[service].url}/{page}") as answer:
                found[f"{service} /{page}"] = await answer.read()
    found["Events"] = json.dumps((await platform.api.get("/api/v1/events")).body).encode()
    for path in await asyncio.to_thread(lambda: sorted((stack.settings.folder / "logs").glob("*.log"))):
        found[path.name] = await asyncio.to_thread(path.read_bytes)
    kinds = ("aimservices", "aimmodels", "aimclustermodels", "aimclustermodelsources", "aimartifacts",
             "aimservicetemplates", "aimtemplatecaches", "aimclusterservicetemplates")  # fmt: skip
    for kind in kinds:
        items = (await platform.api.get(f"{OWN}/{kind}")).body["items"]
        found[f"status of {kind}"] = json.dumps([one.get("status") for one in items]).encode()
    return found


async def asked(platform: Platform, folder: Path) -> dict[str, bytes]:
    """What the command line tells of the objects, and the file that it makes of the log."""
    cluster, nats = ("--kubeconfig", str(platform.stack.kubeconfig)), ("--nats-url", platform.stack.nats_url)
    file = folder / "slice.aimlog"
    objects = [("aimservice", "chat"), ("aimmodel", "canaries"), ("aimartifact", "canaries")]
    of_objects = [(kind, f"{NAMESPACE}/{name}") for kind, name in objects]
    of_objects += [("aimclustermodel", "canaries"), ("aimclustermodelsource", "canaries")]
    commands: list[tuple[str, ...]] = [("export", str(file), *nats)]
    for one in of_objects:
        commands += [("why", *one, *cluster), ("timeline", *one, *nats), ("timeline", *one, "-o", "json", *nats)]
    found = {}
    for words in commands:
        ended = await asyncio.to_thread(CliRunner().invoke, app, list(words))
        assert ended.exit_code in {Exit.WELL, Exit.FOUND}, (words, ended.output)
        found[f"aim {' '.join(words)}"] = ended.output.encode()
    assert all(found.values())
    found["exported file"] = gzip.decompress(await asyncio.to_thread(file.read_bytes))
    return found


@pytest.mark.spec("FW-343", "FW-596", "AR-352", "FW-619")
async def test_no_credential_is_reported(tmp_path: Path) -> None:
    async with echoing() as echo:
        tracing = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{echo.host}", "OTEL_BSP_SCHEDULE_DELAY": "200"}
        async with started_platform(tmp_path / "platform", service_env=dict.fromkeys(SERVICES, tracing)) as platform:
            await seeded(platform, echo)
            await platform.running(f"{OWN}/namespaces/{NAMESPACE}/aimservices/chat")
            artifact = f"{OWN}/namespaces/{NAMESPACE}/aimartifacts/canaries"
            await platform.until(artifact, lambda obj: status_of(obj) == "Failed")
            for path in ("aimclustermodelsources", "aimclustermodels", f"namespaces/{NAMESPACE}/aimmodels"):
                await platform.until(
                    f"{OWN}/{path}/canaries", lambda obj: bool((obj.get("status") or {}).get("conditions"))
                )
            await eventually(lambda: len(echo.asked) > 3 and bool(echo.traces), "everybody asked, and told of it")
            print(sorted(set(echo.asked)))
            said, log = await reported(platform, echo), await streamed(platform.stack.nats_url)
            log |= await asked(platform, tmp_path)
    seen = where(log, f"{PLAIN}-value")
    assert {"stream AIM_STATE", "exported file"} <= seen.keys(), "the search finds what is there"
    assert where(said | log, SECRET) == {}
    assert where(said, PLAIN) == {}
