"""Checks of rollouts, asked of a real Prometheus."""

from pathlib import Path

import pytest
from aiohttp import web
from support.nats import eventually
from support.prometheus import watching

from aim_local.ports import HOST, free_port
from aim_serving.rollout_checks import PrometheusReader, QueryParams
from controller_runtime import EffectError


@pytest.mark.spec("SV-349")
async def test_answers_and_refusals_of_prometheus(tmp_path: Path) -> None:
    async with watching(tmp_path / "p", {}, {}) as prometheus:
        url, read = prometheus.url, PrometheusReader()

        async def answers() -> bool:
            return bool(await prometheus.query("vector(1)"))

        await eventually(answers, "Prometheus answers")
        for query, value in (
            ("vector(0.25)", 0.25),
            ("scalar(vector(3))", 3.0),
            ('label_replace(vector(1), "a", "b", "", "") or vector(2)', 2.0),
            ("absent_series", None),
            ("vector(0) / 0", None),
        ):
            assert (await read(QueryParams(url=f"{url}/", query=query))).value == value, query
        infinite = await read(QueryParams(url=url, query="vector(1) / 0"))
        assert infinite.value is not None
        assert infinite.value > 1e300
        with pytest.raises(EffectError, match="parse error"):
            await read(QueryParams(url=url, query="rate("))
    with pytest.raises(EffectError, match="has not answered"):
        await read(QueryParams(url=f"http://{HOST}:{free_port()}", query="vector(1)"))


@pytest.mark.spec("SV-349")
@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"x" * (2 << 20), "more than 1048576 bytes; aggregate the query"),
        (b"[1]", "expected a JSON object"),
        (b'{"status":"success","data":[]}', "has not answered"),
        (b'{"status":"success","data":{"resultType":"vector","result":[{"value":[]}]}}', "has not answered"),
        (b'{"status":"error","error":"' + b"e" * 4096 + b'"}', "more characters"),
    ],
)
async def test_what_is_no_answer_of_prometheus_is_a_failure_of_bounded_length(body: bytes, why: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    application = web.Application()
    application.router.add_get("/api/v1/query", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, 0).start()
        with pytest.raises(EffectError, match=why) as raised:
            await PrometheusReader()(QueryParams(url=f"http://{HOST}:{runner.addresses[0][1]}", query="x"))
        assert len(str(raised.value)) < 500
    finally:
        await runner.cleanup()
