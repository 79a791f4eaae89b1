"""Metrics by HTTPS: who gets them, what the API server is asked for it, and whose certificate is shown."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from support.controlplane import RawApi
from support.scraping import Certificates, allow_to_read, anybody, planted_token, scrape
from support.services import Platform

from aim_local.ports import free_port
from controller_runtime import KubeClient
from controller_runtime.kube.config import Connection, NoCredentials
from controller_runtime.kube.transport import TransportSettings
from controller_runtime.manager.certificates import CertificateFiles, self_signed_tls, tls_from_files
from controller_runtime.manager.http import HttpServer, metrics_only
from controller_runtime.manager.scrapers import ALLOWED_SECONDS, OUTAGE_SECONDS, REFUSED_SECONDS, Scrapers
from controller_runtime.manager.settings import Address
from controller_runtime.manager.troubles import StartError
from controller_runtime.telemetry.metrics import Metrics
from embedded_apiserver import ControlPlane


class Time:
    """A clock that the test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def serving(kube_server: str, tls: ssl.SSLContext, clock: Time) -> AsyncIterator[str]:
    """A metrics server of its own; its address."""
    port = free_port()
    connection = Connection(kube_server, NoCredentials())
    async with KubeClient(connection, service="t", settings=TransportSettings(attempts=1)) as kube:
        app = metrics_only(Metrics(), Scrapers(kube, "aim-t", clock))
        running = asyncio.ensure_future(HttpServer(app, Address("127.0.0.1", port), tls).run())
        try:
            yield f"127.0.0.1:{port}"
        finally:
            running.cancel()
            await asyncio.wait((running,))


def reviews(plane: ControlPlane) -> int:
    """How many reviews the API server was asked for."""
    counted = plane.requests.report()["requests"]
    return sum(int(one["count"]) for one in counted if one["resource"].partition(".")[0].endswith("reviews"))


@pytest.mark.spec("FW-305", "FW-348", "FW-557", "FW-558")
async def test_only_who_the_api_server_knows_and_allows_gets_them_and_answers_are_kept_for_a_while(
    controlplane: ControlPlane, api: RawApi
) -> None:
    clock = Time()
    await allow_to_read(api, "default", "prometheus")
    allowed = f"Bearer {await planted_token(api, 'default', 'prometheus')}"
    other = f"Bearer {await planted_token(api, 'default', 'other')}"
    async with serving(controlplane.url, self_signed_tls(), clock) as address:

        async def answer(authorization: str) -> int:
            return (await scrape(address, anybody(), authorization))[0]

        assert await answer("") == 401
        assert await answer("Basic dTpw") == 401
        assert await answer("Bearer " + "x" * 20_000) == 401
        assert reviews(controlplane) == 0
        assert await answer("Bearer forged") == 401
        assert await answer(other) == 403
        status, page = await scrape(address, anybody(), allowed)
        assert (status, "rest_client_requests_total" in page) == (200, True)
        asked = reviews(controlplane)
        assert asked == 5, "one for an unknown token, two for a known one"
        assert [await answer(one) for one in (allowed, other, "Bearer forged")] == [200, 403, 401]
        assert reviews(controlplane) == asked
        clock.now += REFUSED_SECONDS
        assert [await answer(one) for one in (allowed, other)] == [200, 403]
        assert reviews(controlplane) == asked + 2, "a refusal is asked for again sooner"
        clock.now += ALLOWED_SECONDS
        await api.delete("/api/v1/namespaces/default/secrets/prometheus-token")
        assert await answer(allowed) == 401


@pytest.mark.spec("FW-558")
async def test_many_clients_with_one_token_are_asked_for_once(controlplane: ControlPlane, api: RawApi) -> None:
    await allow_to_read(api, "default", "prometheus")
    allowed = f"Bearer {await planted_token(api, 'default', 'prometheus')}"
    async with serving(controlplane.url, self_signed_tls(), Time()) as address:
        answers = await asyncio.gather(*(scrape(address, anybody(), allowed) for _ in range(8)))
    assert {status for status, _ in answers} == {200}
    assert reviews(controlplane) <= 4, "two at a time"


@pytest.mark.spec("FW-558")
async def test_while_the_api_server_is_away_who_was_allowed_still_is_for_a_while(
    controlplane: ControlPlane, api: RawApi
) -> None:
    clock = Time()
    await allow_to_read(api, "default", "prometheus")
    allowed = f"Bearer {await planted_token(api, 'default', 'prometheus')}"
    async with serving(controlplane.url, self_signed_tls(), clock) as address:
        assert (await scrape(address, anybody(), allowed))[0] == 200
        await controlplane.__aexit__(None, None, None)
        try:
            clock.now += OUTAGE_SECONDS - 1
            assert (await scrape(address, anybody(), allowed))[0] == 200
            assert (await scrape(address, anybody(), "Bearer forged"))[0] == 503
            clock.now += 2
            assert (await scrape(address, anybody(), allowed))[0] == 503
        finally:
            await controlplane.__aenter__()


@pytest.mark.spec("FW-559")
async def test_a_changed_certificate_is_shown_to_the_next_connection_and_a_broken_one_to_nobody(
    controlplane: ControlPlane, tmp_path: Path
) -> None:
    files = CertificateFiles(tmp_path / "c/tls.crt", tmp_path / "c/tls.key")
    with pytest.raises(StartError, match="--metrics-cert-path"):
        tls_from_files(files)
    certificates = Certificates(tmp_path / "c")
    certificates.issue("first.example")
    async with serving(controlplane.url, tls_from_files(files), Time()) as address:
        assert (await scrape(address, certificates.client, name="first.example"))[0] == 401
        certificates.issue("second.example")
        assert (await scrape(address, certificates.client, name="second.example"))[0] == 401
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await scrape(address, certificates.client, name="first.example")
        files.key.write_text("not a key")
        assert (await scrape(address, certificates.client, name="second.example"))[0] == 401
        certificates.issue("third.example")
        assert (await scrape(address, certificates.client, name="third.example"))[0] == 401


@pytest.mark.spec("FW-347", "FW-559")
async def test_neither_http_2_nor_plain_http(controlplane: ControlPlane) -> None:
    async with serving(controlplane.url, self_signed_tls(), Time()) as address:
        host, port = address.split(":")
        client = anybody()
        client.set_alpn_protocols(["h2", "http/1.1"])
        _, writer = await asyncio.open_connection(host, int(port), ssl=client)
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        writer.close()
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get(f"http://{address}/metrics")


@pytest.mark.spec("FW-273", "FW-280", "FW-348", "FW-559")
async def test_a_started_service_serves_them_so(stage: Platform, api: RawApi) -> None:
    certificates = Certificates(stage.folder / "tls")
    certificates.issue("metrics.example")
    await allow_to_read(api, "default", "prometheus")
    allowed = f"Bearer {await planted_token(api, 'default', 'prometheus')}"
    address = f"127.0.0.1:{free_port()}"
    service = await stage.started(
        METRICS_BIND_ADDRESS=address, METRICS_SECURE="true", METRICS_CERT_PATH=str(certificates.folder)
    )
    await service.ready()
    assert (await scrape(address, certificates.client, name="metrics.example"))[0] == 401
    status, page = await scrape(address, certificates.client, allowed, "metrics.example")
    assert (status, "workqueue_depth" in page) == (200, True)
    assert (await service.ask("/metrics"))[0] == 404, "probes do not show them as well"
    assert "prometheus" not in service.log


@pytest.mark.spec("FW-348")
async def test_secure_metrics_at_the_address_of_the_probes_are_reported_in_one_line(stage: Platform) -> None:
    service = await stage.started(METRICS_SECURE="true")
    assert await service.ended() == 1
    (line,) = [line for line in service.lines if line["level"] == "error"]
    assert "--metrics-bind-address" in line["error"]
