"""Loading LoRA adapters into an engine over HTTP, and what engines answer instead (LA-031, LA-032)."""

import gzip
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from aim_local.engine import Backends, EnginePod, engine
from aim_local.ports import HOST, free_port
from aim_serving.adapter_loading import AdapterLoader, LoadParams, LoadResult, WantedAdapter
from controller_runtime import EffectError, Key

POD = "http://10.244.1.2:8000"


@asynccontextmanager
async def engine_of(disk: Path, max_rank: int | None = 16, life: str = "pod/0") -> AsyncIterator[AdapterLoader]:
    """The engine of one pod, which is reached as in a simulated cluster."""
    backends = Backends()
    pod = EnginePod("chat-0", "10.244.1.2", life, disk, max_rank)
    backends.update(Key("ml-team", "chat-predictor"), Key("ml-team", "chat"), "Qwen/Qwen3-32B", [pod])
    async with engine(backends) as url:
        yield AdapterLoader(url)


def adapter(disk: Path, name: str, rank: int = 8) -> WantedAdapter:
    (disk / name).mkdir(exist_ok=True)
    (disk / name / "adapter_config.json").write_text(json.dumps({"r": rank}), encoding="utf-8")
    return WantedAdapter(name=name, path=f"/adapters/{name}")


def asking(*wanted: WantedAdapter, kept: tuple[str, ...] = ()) -> LoadParams:
    names = tuple(one.name for one in wanted)
    return LoadParams(url=POD, digest="d", wanted=wanted, kept=(*names, *kept))


@pytest.mark.spec("LA-031")
async def test_an_engine_is_brought_to_what_is_wanted(tmp_path: Path) -> None:
    sql, chat = adapter(tmp_path, "sql"), adapter(tmp_path, "chat")
    async with engine_of(tmp_path) as load:
        assert await load(asking(sql)) == LoadResult(digest="d", loaded=(sql,))
        assert (await load(asking(sql, chat))).loaded == (sql, chat), "what is there is not loaded again"
        assert (await load(asking(chat))).loaded == (chat,)
        assert (await load(asking(sql, chat))).loaded == (sql, chat), "the other was unloaded"


@pytest.mark.spec("LA-031")
async def test_an_adapter_with_another_path_is_loaded_again_and_one_without_files_is_kept(tmp_path: Path) -> None:
    sql = adapter(tmp_path, "sql")
    newer = WantedAdapter(name="sql", path=adapter(tmp_path, "newer").path)
    async with engine_of(tmp_path) as load:
        await load(asking(sql))
        assert (await load(asking(newer))).loaded == (newer,)
        await load(asking(kept=("sql",)))
        (tmp_path / "newer" / "adapter_config.json").unlink()
        assert (await load(asking(newer))).loaded == (newer,), "it was never unloaded"


@pytest.mark.spec("LA-032", "LA-033")
async def test_what_an_engine_refuses_is_quoted_and_the_others_are_loaded(tmp_path: Path) -> None:
    large, sql = adapter(tmp_path, "large", rank=64), adapter(tmp_path, "sql")
    missing = WantedAdapter(name="missing", path="/adapters/missing")
    async with engine_of(tmp_path) as load:
        found = await load(asking(large, missing, sql))
    assert found.loaded == (sql,)
    assert {one.name: one.why for one in found.refused} == {
        "large": "the engine refuses it (400): LoRA rank 64 is greater than max_lora_rank 16.",
        "missing": "the engine refuses it (404): Loading lora failed: No adapter found for /adapters/missing",
    }


@pytest.mark.spec("LA-032")
async def test_an_engine_that_takes_no_adapters_at_run_time(tmp_path: Path) -> None:
    async with engine_of(tmp_path, None) as load:
        [refusal] = (await load(asking(adapter(tmp_path, "sql")))).refused
    assert refusal.why.startswith("the engine has no /v1/load_lora_adapter; serve the model with an image whose vLLM")


@asynccontextmanager
async def answering(
    body: bytes, status: int = 200, headers: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[str, list[str]]]:
    """A program at the port of an engine that answers the same to everything; its URL, and the paths that are asked."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=status, body=body, headers=headers)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, 0).start()
        yield f"http://{HOST}:{runner.addresses[0][1]}", asked
    finally:
        await runner.cleanup()


@pytest.mark.spec("LA-032")
@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        (b"not json", 200, "has not answered"),
        (b"[]", 200, "has not answered"),
        (b"{}", 200, "has not answered: 'data'"),
        (b'{"data": [1]}', 200, "has not answered"),
        (b'{"object": "error", "message": "loading"}', 503, "GET /v1/models: 503 loading"),
        (b'{"detail": "Not Found"}', 404, "GET /v1/models: 404 Not Found"),
        (b'"' + b"x" * (2 << 20) + b'"', 200, "the answer has more than 1048576 bytes"),
    ],
)
async def test_what_is_no_engine_is_reported_and_asked_again(body: bytes, status: int, why: str) -> None:
    async with answering(body, status) as (url, _):
        with pytest.raises(EffectError) as caught:
            await AdapterLoader()(LoadParams(url=url, digest="d"))
    assert caught.value.error.reason == "EngineNotReached"
    assert why in caught.value.error.message


@pytest.mark.spec("LA-032")
async def test_an_engine_that_is_not_there() -> None:
    with pytest.raises(EffectError, match="has not answered"):
        await AdapterLoader()(LoadParams(url=f"http://{HOST}:{free_port()}", digest="d"))


@pytest.mark.spec("LA-032")
async def test_an_engine_is_followed_to_no_other_address() -> None:
    async with answering(b"", 307, {"Location": "/elsewhere"}) as (url, asked):
        with pytest.raises(EffectError):
            await AdapterLoader()(LoadParams(url=url, digest="d"))
    assert asked == ["/v1/models"]


@pytest.mark.spec("LA-032")
async def test_nothing_that_an_engine_compresses_is_unpacked() -> None:
    async with answering(gzip.compress(b'{"data": []}'), headers={"Content-Encoding": "gzip"}) as (url, _):
        with pytest.raises(EffectError, match="has not answered"):
            await AdapterLoader()(LoadParams(url=url, digest="d"))
