"""Checks of rollouts, asked of a real Prometheus."""

from pathlib import Path

import pytest
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
