"""Finding the API server and proving who we are."""

import asyncio
import base64
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
import yaml
from aiohttp import web
from support.nats import eventually

from controller_runtime import KubeClient, TransportSettings, load_connection
from controller_runtime.kube import config
from controller_runtime.kube.config import ConfigError, TokenFile, from_kubeconfig, in_cluster
from controller_runtime.kube.errors import ApiConnectionError


def kubeconfig(path: Path, server: str, user: dict[str, object], **cluster: object) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mounted service account."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    (tmp_path / "token").write_text("first\n")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return tmp_path


async def test_a_pod_uses_its_service_account(pod: Path) -> None:
    connection = await in_cluster(pod)

    assert connection.server == "https://10.0.0.1:443"
    assert await connection.credentials.authorization() == "Bearer first"
    assert connection.tls is not None
    assert connection.tls.verify_mode is ssl.CERT_REQUIRED


async def test_an_ipv6_service_address_is_bracketed(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    assert (await in_cluster(pod)).server == "https://[fd00::1]:443"


async def test_a_rotated_token_is_found_on_refresh_and_after_its_lifetime(
    pod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = TokenFile(pod / "token")
    assert await token.authorization() == "Bearer first"
    (pod / "token").write_text("second")
    assert await token.authorization() == "Bearer first"
    await token.refresh()
    assert await token.authorization() == "Bearer second"
    (pod / "token").write_text("third")
    monkeypatch.setattr(config, "TOKEN_LIFETIME", -1.0)
    assert await token.authorization() == "Bearer third"


@pytest.mark.parametrize("content", [None, "", " \n"])
async def test_a_missing_token_says_what_to_check(pod: Path, content: str | None) -> None:
    (pod / "token").unlink()
    if content is not None:
        (pod / "token").write_text(content)
    with pytest.raises(ConfigError, match="the token is mounted"):
        await in_cluster(pod)


async def test_the_environment_kubeconfig_wins_over_the_pod(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = kubeconfig(pod / "config", "http://127.0.0.1:1/", {"token": "t"})
    monkeypatch.setenv("KUBECONFIG", str(file))
    connection = await load_connection()

    assert connection.server == "http://127.0.0.1:1"
    assert await connection.credentials.authorization() == "Bearer t"


async def test_a_refresh_loads_the_kubeconfig_again(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path / "config", "http://127.0.0.1:1", {"token": "old"})
    credentials = (await from_kubeconfig(str(file))).credentials
    kubeconfig(file, "http://127.0.0.1:1", {"token": "new"})
    await credentials.refresh()
    assert await credentials.authorization() == "Bearer new"


async def test_an_exec_plugin_brings_the_token(tmp_path: Path) -> None:
    credential = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"plug"}}'
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", f"print('{credential}')"],
    }
    file = kubeconfig(tmp_path / "config", "http://127.0.0.1:1", {"exec": plugin})
    credentials = (await from_kubeconfig(str(file))).credentials
    assert await credentials.authorization() == "Bearer plug"


@pytest.mark.spec("FW-433")
async def test_a_plugin_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_go, pid_file = tmp_path / "let-go", tmp_path / "pid"
    script = (
        f"import os, pathlib, time\npathlib.Path({str(pid_file)!r}).write_text(str(os.getpid()))\n"
        f"while not pathlib.Path({str(let_go)!r}).exists(): time.sleep(0.01)"
    )
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", script],
    }
    file = kubeconfig(tmp_path / "config", "http://127.0.0.1:1", {"exec": plugin})
    monkeypatch.setattr("controller_runtime.kube.config.PLUGIN_SECONDS", 0.2)
    with pytest.raises(ConfigError, match="returned no credential"):
        await asyncio.wait_for(from_kubeconfig(str(file)), 20)
    # The library started the process and keeps it to itself; the loop must live until it has seen it end.
    let_go.touch()
    await eventually(lambda: pid_file.exists() and _is_reaped(int(pid_file.read_text() or 0)), "the plugin's end")
    await asyncio.sleep(0.1)


def _is_reaped(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_several_files_are_joined_and_the_first_entry_of_a_name_counts(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    first, second = tmp_path / "first", tmp_path / "sub" / "second"
    first.write_text("current-context: c\nusers: [{name: u, user: {tokenFile: token}}]\n")
    (tmp_path / "token").write_text("rotated\n")
    kubeconfig(second, "http://127.0.0.1:2", {"token": "other"})
    connection = await from_kubeconfig(f"{tmp_path / 'absent'}{os.pathsep}{first}{os.pathsep}{second}")
    assert connection.server == "http://127.0.0.1:2"
    assert await connection.credentials.authorization() == "Bearer rotated"


async def test_name_and_password_and_another_context(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path / "config", "http://127.0.0.1:1", {"username": "me", "password": "pw"})
    connection = await from_kubeconfig(str(file), "c")
    assert await connection.credentials.authorization() == "Basic bWU6cHc="
    with pytest.raises(ConfigError, match="context 'other' is missing"):
        await from_kubeconfig(str(file), "other")


@pytest.mark.parametrize("text", ["{}", "clusters: 5", "current-context: x\ncontexts: []\n", ": [", ""])
async def test_an_unusable_kubeconfig_says_which(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(ConfigError, match=str(tmp_path / "config")):
        await from_kubeconfig(str(tmp_path / "config"))


async def test_without_anything_the_choices_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match="set KUBECONFIG"):
        await load_connection()
    with pytest.raises(ConfigError, match="does not exist"):
        await load_connection(str(tmp_path / "nothing"))


async def test_certificates_are_verified_and_presented(tmp_path: Path) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    server_cert, client_cert = authority.issue_cert("127.0.0.1"), authority.issue_cert("me@example.org")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_cert.configure_cert(tls)
    authority.configure_trust(tls)
    tls.verify_mode = ssl.CERT_REQUIRED
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    stranger.cert_pem.write_to_path(tmp_path / "stranger.crt")
    client_cert.private_key_and_cert_chain_pem.write_to_path(tmp_path / "me.pem")

    def encoded(name: str) -> str:
        return base64.b64encode((tmp_path / name).read_bytes()).decode()

    user: dict[str, object] = {"client-certificate": "me.pem", "client-key": "me.pem"}

    runner = web.ServerRunner(web.Server(_version), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    try:
        good = kubeconfig(tmp_path / "good", url, user, **{"certificate-authority": "ca.crt"})
        bad = kubeconfig(tmp_path / "bad", url, user, **{"certificate-authority": "stranger.crt"})
        lax = kubeconfig(tmp_path / "lax", url, user, **{"insecure-skip-tls-verify": True})
        inline = kubeconfig(
            tmp_path / "inline",
            url,
            {"client-certificate-data": encoded("me.pem"), "client-key-data": encoded("me.pem")},
            **{"certificate-authority-data": encoded("ca.crt")},
        )
        for file in (good, lax, inline):
            async with KubeClient(await from_kubeconfig(str(file)), service="t") as client:
                assert await client.version() == {"major": "1"}
                with pytest.raises(ConfigError, match="authenticates by certificate"):
                    client.as_bearer("theirs")
        once = TransportSettings(attempts=1)
        async with KubeClient(await from_kubeconfig(str(bad)), service="t", settings=once) as client:
            with pytest.raises(ApiConnectionError, match="certificate"):
                await client.version()
        # The transports of TLS connections close one turn of the loop after their session.
        await asyncio.sleep(0)
    finally:
        await runner.cleanup()


async def _version(_: web.BaseRequest) -> web.StreamResponse:
    return web.json_response({"major": "1"})


@asynccontextmanager
async def secure_server(authority: trustme.CA) -> AsyncIterator[int]:
    """The port of an API server whose certificate that authority has signed."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    runner = web.ServerRunner(web.Server(_version), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


@pytest.mark.spec("FW-660")
@pytest.mark.parametrize("mounted", [True, False])
async def test_a_changed_ca_is_read_without_a_restart(
    pod: Path, monkeypatch: pytest.MonkeyPatch, *, mounted: bool
) -> None:
    former, new, once = trustme.CA(), trustme.CA(), TransportSettings(attempts=1)
    former.cert_pem.write_to_path(pod / "ca.crt")
    async with secure_server(new) as port:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(port))
        url, trusted = f"https://127.0.0.1:{port}", {"certificate-authority": "ca.crt"}
        file = kubeconfig(pod / "config", url, {"token": "t"}, **trusted)
        connection = await (in_cluster(pod) if mounted else from_kubeconfig(str(file)))
        async with KubeClient(connection, service="t", settings=once) as client:
            with pytest.raises(ApiConnectionError, match="certificate"):
                await client.version()
            new.cert_pem.write_to_path(pod / "ca.crt")
            assert await client.version() == {"major": "1"}
        # The transports of TLS connections close one turn of the loop after their session.
        await asyncio.sleep(0)


def test_the_library_is_not_imported_without_need(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path / "config", "http://127.0.0.1:1", {"token": "t"})
    program = (
        "import asyncio, sys; from controller_runtime.kube.config import from_kubeconfig; "
        "asyncio.run(from_kubeconfig(sys.argv[1])); sys.exit('kubernetes_asyncio' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program, str(file)], check=True, timeout=60)


@pytest.mark.spec("FW-872")
async def test_a_bearer_has_the_token_and_no_other_credential(tmp_path: Path) -> None:
    own = await from_kubeconfig(str(kubeconfig(tmp_path / "config", "http://127.0.0.1:9", {"token": "mine"})))
    bearer = own.as_bearer("theirs")
    assert await bearer.credentials.authorization() == "Bearer theirs"
    await bearer.credentials.refresh()
    assert await bearer.credentials.authorization() == "Bearer theirs", "a refused token is not replaced by another"
