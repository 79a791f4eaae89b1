"""Mirrors, TLS and the configuration file of the registry client, over real HTTP."""

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from support.oci import REPOSITORY, at, pull_secret, settings, store_with_tags

from aim_local.registry import BasicAuth, Fault, ImageStore, LocalRegistry
from oci_registry import (
    CredentialSet,
    RegistryClient,
    RegistryError,
    RegistryErrorCategory,
    RegistryErrorCode,
    Repository,
)
from oci_registry.client import RegistriesFile
from oci_registry.mirrors import Registries, parse_registries


def only(mirror: Mapping[str, object]) -> Registries:
    """One mirror of ghcr.io, and nothing else."""
    rules = {"mirrors": [mirror], "upstream": {"enabled": False}}
    return parse_registries(json.dumps({"registries": {"ghcr.io": rules}}))


def mirrored(first: LocalRegistry, *, upstream: bool) -> Registries:
    return parse_registries(
        json.dumps(
            {
                "registries": {
                    "ghcr.io": {
                        "mirrors": [{"url": "http://127.0.0.1:1"}, {"url": f"http://{first.host}/proxy"}],
                        "upstream": {"enabled": upstream},
                    }
                }
            }
        )
    )


@pytest.mark.spec("FW-384", "FW-388", "FW-391")
async def test_mirrors_are_asked_in_order(client: RegistryClient) -> None:
    store = ImageStore()
    store.put("proxy/team/model", "1.0.0")
    store.put("elsewhere/model", "1.0.0")
    async with LocalRegistry(store=store, auth=None) as registry:
        client.use(mirrored(registry, upstream=False))
        assert (await client.list_tags(Repository("ghcr.io", REPOSITORY))).names == ("1.0.0",)
        assert (await client.list_repositories("ghcr.io", owner="team")).names == ("team/model",)


@pytest.mark.spec("FW-389", "FW-390", "FW-397", "FW-S82")
async def test_when_no_endpoint_answers_the_outage_decides(client: RegistryClient, registry: LocalRegistry) -> None:
    client.use(mirrored(registry, upstream=False))
    with pytest.raises(RegistryError, match=r"127.0.0.1:1: .*NAME_UNKNOWN") as caught:
        await client.list_tags(Repository("ghcr.io", "team/none"))
    assert caught.value.code is RegistryErrorCode.UNREACHABLE
    assert caught.value.reached, "the second mirror answered"
    client.use(parse_registries('registries: {"*": {upstream: {enabled: false}}}'))
    with pytest.raises(RegistryError, match="switched off") as caught:
        await client.list_tags(at(registry))
    assert caught.value.code is RegistryErrorCode.UNREACHABLE
    assert not caught.value.reached
    assert caught.value.category is RegistryErrorCategory.GENERIC


@pytest.mark.spec("FW-392", "FW-S85")
async def test_credentials_of_the_registry_are_not_sent_to_its_mirror() -> None:
    auth = BasicAuth("mirror", "m")
    store = ImageStore()
    store.put("proxy/team/model", "1.0.0")
    async with LocalRegistry(store=store, auth=auth) as registry:

        async def secret(name: str) -> CredentialSet:
            assert name == "harbor-pull"
            return pull_secret(registry.host, "mirror", "m")

        mirror = {"url": f"http://{registry.host}/proxy", "secretName": "harbor-pull"}
        rules = json.dumps({"registries": {"ghcr.io": {"mirrors": [mirror], "upstream": {"enabled": False}}}})
        async with RegistryClient(settings(), parse_registries(rules), mirror_secrets=secret) as client:
            own = pull_secret("ghcr.io", "mirror", "m")
            assert (await client.list_tags(Repository("ghcr.io", REPOSITORY), own)).names == ("1.0.0",)
        async with RegistryClient(settings(), parse_registries(rules)) as client:
            with pytest.raises(RegistryError) as caught:
                await client.list_tags(Repository("ghcr.io", REPOSITORY), own)
    assert caught.value.code is RegistryErrorCode.AUTH_FAILED


@pytest.mark.spec("FW-395", "FW-S87")
async def test_a_changed_configuration_file_is_taken_up_and_a_faulty_one_is_not(
    client: RegistryClient, registry: LocalRegistry, tmp_path: Path
) -> None:
    path = tmp_path / "registries.yaml"
    follower = RegistriesFile(path, client)
    path.write_text('registries: {"*": {upstream: {enabled: false}}}')
    await follower.read()
    with pytest.raises(RegistryError, match="switched off"):
        await client.list_tags(at(registry))
    path.write_text("registries: {")
    await follower.read()
    assert follower.failures == 1
    with pytest.raises(RegistryError, match="switched off"):
        await client.list_tags(at(registry))
    path.write_text("")
    await follower.read()
    assert (await client.list_tags(at(registry))).names == ("1.0.0",)


@pytest.mark.spec("FW-387")
async def test_unprotected_endpoints_are_counted_once(client: RegistryClient, registry: LocalRegistry) -> None:
    client.use(parse_registries(f'registries: {{"{registry.host}": {{upstream: {{plainHttp: true}}}}}}'))
    for _ in range(2):
        await client.list_tags(at(registry))
    assert client.insecure_endpoints == 1


@dataclass(frozen=True)
class Tls:
    """A server's certificate, and the file of the authority that signed it."""

    server: ssl.SSLContext
    authority: Path


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    file = tmp_path_factory.mktemp("tls") / "authority.pem"
    authority.cert_pem.write_to_path(str(file))
    return Tls(context, file)


@pytest.mark.spec("MS-155", "FW-382", "FW-S83")
async def test_certificates_are_checked_against_the_given_authorities(tls: Tls) -> None:
    async with LocalRegistry(store=store_with_tags(), auth=None, tls=tls.server) as registry:
        mirror = {"url": f"https://{registry.host}"}
        trusted = {**mirror, "caFile": str(tls.authority)}
        skipped = {**mirror, "insecureSkipVerify": True}
        repository = Repository("ghcr.io", REPOSITORY)
        for rules in (trusted, skipped):
            async with RegistryClient(settings(), only(rules)) as client:
                assert (await client.list_tags(repository)).names == ("1.0.0",)
                assert client.insecure_endpoints == (1 if rules is skipped else 0)
        async with RegistryClient(settings(registry_ca_file=tls.authority), only(mirror)) as client:
            assert (await client.list_tags(repository)).names == ("1.0.0",)
        async with RegistryClient(settings(), only(mirror)) as client:
            with pytest.raises(RegistryError, match="certificate is not trusted") as caught:
                await client.list_tags(repository)
    assert caught.value.code is RegistryErrorCode.UNREACHABLE


@pytest.mark.spec("FW-386")
async def test_a_mirror_is_spoken_to_exactly_as_configured(registry: LocalRegistry) -> None:
    async with RegistryClient(settings(), only({"url": f"https://{registry.host}"})) as client:
        with pytest.raises(RegistryError) as caught:
            await client.list_tags(Repository("ghcr.io", REPOSITORY))
    assert caught.value.code is RegistryErrorCode.UNREACHABLE
    assert registry.total_requests == 0


@pytest.mark.spec("MS-119")
async def test_a_local_address_that_speaks_tls_is_used_with_tls(tls: Tls) -> None:
    async with (
        LocalRegistry(store=store_with_tags(), auth=None, tls=tls.server) as registry,
        RegistryClient(settings(registry_ca_file=tls.authority)) as client,
    ):
        assert (await client.list_tags(at(registry))).names == ("1.0.0",)


@pytest.mark.spec("FW-386")
async def test_a_redirect_does_not_leave_tls(registry: LocalRegistry, tls: Tls) -> None:
    async with LocalRegistry(store=store_with_tags(), auth=None, tls=tls.server) as secure:
        target = f"http://{registry.host}/v2/{REPOSITORY}/tags/list"
        secure.fail("tags", Fault(307, {"Location": target}))
        rules = only({"url": f"https://{secure.host}", "caFile": str(tls.authority)})
        async with RegistryClient(settings(), rules) as client:
            with pytest.raises(RegistryError, match="plain http") as caught:
                await client.list_tags(Repository("ghcr.io", REPOSITORY))
    assert caught.value.code is RegistryErrorCode.INVALID_RESPONSE
