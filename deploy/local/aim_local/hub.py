"""A Hub of made-up models: every repository exists and holds a MiB of weights, with the checksums of its files.

One whose name ends with `lora`, or `lora-r64`, is a small adapter of that rank.

`python -m aim_local.hub HOST PORT` serves it to the pods of a node.
"""

import asyncio
import hashlib
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from controller_runtime import dumps
from embedded_apiserver.serving import HOST, serving

WEIGHTS: Final = 1 << 20
"""Bytes of the weights of each repository."""
_SHARDS: Final = 24
"""More than are fetched at once, so that some are complete before others."""
_BLOCK: Final = 1 << 13
_REVISION: Final = hashlib.sha1(b"made up", usedforsecurity=False).hexdigest()
_CONFIG: Final = "config.json"
_ADAPTER_CONFIG: Final = "adapter_config.json"
_SMALL: Final = frozenset({_CONFIG, _ADAPTER_CONFIG})
_ADAPTER: Final = re.compile(r"lora(?:-r(\d+))?$")
"""How the names of adapters end, with their rank where it is not 16."""


@asynccontextmanager
async def local_hub(port: int = 0, pause: float = 0.05, host: str = HOST) -> AsyncIterator[str]:
    """Serve on one port; yields the URL.

    Args:
        host: address to listen on; the loopback unless pods are to reach it.
        pause: seconds after each 8 KiB, so that a transfer has a progress to be seen.
    """

    async def content(request: Request) -> Response:
        return await _content(request, pause)

    repository = "/api/models/{owner}/{name}"
    routes = [
        Route(repository, _repository),
        Route(f"{repository}/revision/{{revision}}", _repository),
        Route(f"{repository}/tree/{{revision}}", _tree),
        Route("/{owner}/{name}/resolve/{revision}/{path:path}", content, methods=["GET", "HEAD"]),
    ]
    async with serving(Starlette(routes=routes), port, host=host) as bound:
        yield f"http://{host}:{bound}"


def _name(request: Request) -> str:
    return "{owner}/{name}".format(**request.path_params)


async def _repository(request: Request) -> Response:
    return JSONResponse({"id": _name(request), "sha": _REVISION, "siblings": []})


async def _tree(request: Request) -> Response:
    return JSONResponse([_entry(path, content) for path, content in _files(_name(request)).items()])


def _entry(path: str, content: bytes) -> dict[str, object]:
    entry = {"type": "file", "path": path, "size": len(content), "oid": _blob_id(content)}
    if path in _SMALL:
        return entry
    return entry | {"lfs": {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}}


async def _content(request: Request, pause: float) -> Response:
    path: str = request.path_params["path"]
    whole = _files(_name(request)).get(path)
    if whole is None:
        return JSONResponse({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})
    etag = _blob_id(whole) if path in _SMALL else hashlib.sha256(whole).hexdigest()
    start = _start(request)
    headers = {
        "ETag": f'"{etag}"',
        "X-Repo-Commit": _REVISION,
        "Accept-Ranges": "bytes",
        "Content-Length": str(len(whole) - start),
    }
    if request.method == "HEAD":
        return Response(headers=headers)
    if start:
        headers["Content-Range"] = f"bytes {start}-{len(whole) - 1}/{len(whole)}"
    return StreamingResponse(_paced(whole[start:], pause), 206 if start else 200, headers)


async def _paced(content: bytes, pause: float) -> AsyncIterator[bytes]:
    for first in range(0, len(content), _BLOCK):
        yield content[first : first + _BLOCK]
        await asyncio.sleep(pause)


def _start(request: Request) -> int:
    first = request.headers.get("range", "").removeprefix("bytes=").partition("-")[0]
    return int(first) if first.isdecimal() else 0


@lru_cache(maxsize=8)
def _files(repository: str) -> dict[str, bytes]:
    if adapter := _ADAPTER.search(repository):
        config = dumps({"peft_type": "LORA", "r": int(adapter[1] or 16)})
        weights = hashlib.shake_128(repository.encode()).digest(WEIGHTS // _SHARDS)
        return {_ADAPTER_CONFIG: config, "adapter_model.safetensors": weights}
    names = [f"model-{number + 1:05}-of-{_SHARDS:05}.safetensors" for number in range(_SHARDS)]
    shards = {name: hashlib.shake_128(f"{repository}/{name}".encode()).digest(WEIGHTS // _SHARDS) for name in names}
    return {_CONFIG: b'{"model_type": "made-up"}\n', **shards}


def _blob_id(content: bytes) -> str:
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()


async def _stay(host: str, port: int) -> None:
    async with local_hub(port, pause=0.0, host=host):
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(_stay(sys.argv[1], int(sys.argv[2])))
