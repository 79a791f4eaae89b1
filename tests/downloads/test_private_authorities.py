"""Stores whose certificates are of an authority that only the platform's administrator knows."""

import asyncio
import ssl
from pathlib import Path

import pytest
import trustme
from httpx2 import Client, ConnectError
from support.downloads import FakeHub, FakeS3, Program, serving

from aim_artifacts.downloader.environment import trust_authorities
from aim_artifacts.downloader.error_mapping import download_error
from aim_artifacts.downloader.failure import DownloadError
from aim_artifacts.downloader.hub import EndpointTransport


def identity(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


def bundle(authority: trustme.CA) -> str:
    return authority.cert_pem.bytes().decode()


@pytest.mark.spec("AR-818")
async def test_a_hub_of_a_private_authority(program: Program) -> None:
    authority, hub = trustme.CA(), FakeHub(files={"config.json": b"{}"})
    async with serving(hub, identity(authority)):
        known = {"HF_ENDPOINT": hub.url, "AIM_CA_BUNDLE": bundle(authority), "AIM_DOWNLOADER_PROTOCOL": "HTTP"}
        size = await program.check_size("hf://org/model", **known)
        ended = await program.download("hf://org/model", **known)
    assert (size.code, ended.code) == (0, 0), size.err + ended.err
    assert program.files() == hub.files


@pytest.mark.spec("AR-818")
async def test_a_store_of_a_private_authority(program: Program) -> None:
    authority, store = trustme.CA(), FakeS3(objects={"models/a.bin": b"a"})
    async with serving(store, identity(authority)):
        known = {"AWS_ENDPOINT_URL": store.url, "AIM_CA_BUNDLE": f"{bundle(trustme.CA())}\n{bundle(authority)}"}
        ended = await program.download("s3://models/models", **known)
        unknown = await program.check_size("s3://models/models", AWS_ENDPOINT_URL=store.url)
    assert ended.code == 0, ended.err
    assert unknown.code == 15
    assert store.url in unknown.termination["message"]
    assert unknown.termination["message"].endswith("put the certificate authority of the host into AIM_CA_BUNDLE")


@pytest.mark.spec("AR-817", "AR-818")
async def test_an_unknown_authority_is_named_with_its_remedy() -> None:
    hub = FakeHub()
    async with serving(hub, identity(trustme.CA())):
        with Client(transport=EndpointTransport(hub.url, {})) as client, pytest.raises(ConnectError) as failed:
            await asyncio.to_thread(client.get, hub.url)
    message = download_error(failed.value).message
    assert message.startswith(f"{hub.url.removeprefix('https://')} cannot be reached: ")
    assert message.endswith("put the certificate authority of the host into AIM_CA_BUNDLE")


@pytest.mark.spec("AR-818")
def test_authorities_are_added_to_those_that_each_client_has(tmp_path: Path) -> None:
    own, other, added = (trustme.CA() for _ in range(3))
    variables = {"HF_HOME": str(tmp_path / "hf"), "AIM_CA_BUNDLE": bundle(added)}
    for name, authority in {"SSL_CERT_FILE": own, "AWS_CA_BUNDLE": other}.items():
        variables[name] = str(tmp_path / name)
        authority.cert_pem.write_to_path(variables[name])
    trust_authorities(variables)
    for name, authority in {"SSL_CERT_FILE": own, "AWS_CA_BUNDLE": other}.items():
        assert ssl.create_default_context(cafile=variables[name]).cert_store_stats()["x509_ca"] == 2
        assert Path(variables[name]).read_text(encoding="utf-8").split() == (bundle(authority) + bundle(added)).split()


@pytest.mark.spec("AR-818")
@pytest.mark.parametrize("text", ["/etc/ssl/corp.pem", "-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----"])
def test_what_is_no_certificate_is_a_usage_error(text: str) -> None:
    with pytest.raises(DownloadError, match="AIM_CA_BUNDLE holds no certificates in PEM") as failed:
        trust_authorities({"AIM_CA_BUNDLE": text})
    assert failed.value.code == 2
