"""Readiness of processes over the network."""

import asyncio
from pathlib import Path
from typing import Final

import aiohttp

from aim_local.supervision.process import Probe

_SECONDS: Final = 2.0
_BODY: Final = 600


def http_probe(url: str) -> Probe:
    """Ready when a GET is answered with success."""

    async def probe() -> str:
        try:
            timeout = aiohttp.ClientTimeout(total=_SECONDS)
            async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session, session.get(url) as answer:
                return "" if answer.ok else f"{url} answers {answer.status}: {(await answer.text())[:_BODY]}"
        except (aiohttp.ClientError, TimeoutError) as error:
            return f"{url} does not answer: {str(error) or type(error).__name__}"

    return probe


def nats_probe(port: int) -> Probe:
    """Ready when the greeting of the broker says that JetStream is up."""

    async def probe() -> str:
        try:
            async with asyncio.timeout(_SECONDS):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    greeting = await reader.readline()
                finally:
                    writer.close()
        except (OSError, TimeoutError) as error:
            return f"port {port} does not answer: {error}"
        return "" if b'"jetstream":true' in greeting else "JetStream is not up"

    return probe


def file_probe(path: Path) -> Probe:
    """Ready when the file exists."""

    async def probe() -> str:
        return "" if await asyncio.to_thread(path.exists) else f"{path} is not written yet"

    return probe


def all_probes(*probes: Probe) -> Probe:
    """Ready when all are; tells what is missing to the first that is not."""

    async def probe() -> str:
        for one in probes:
            if missing := await one():
                return missing
        return ""

    return probe
