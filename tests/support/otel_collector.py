"""The real OpenTelemetry Collector, which writes what it receives into a file."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from support.otlp import QUICKLY, Collector

from aim_local.assets import Program, find_toolset
from aim_local.ports import HOST, free_port
from aim_local.supervision.process import Program as Command
from aim_local.supervision.process import Supervised

_CONFIG = """
receivers: {{otlp: {{protocols: {{http: {{endpoint: "{address}"}}}}}}}}
exporters: {{file: {{path: "{file}", format: proto, flush_interval: 100ms}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [otlp], exporters: [file]}}}}
"""
_SIZE = 4
"""Bytes before each message of the file that tell its length."""


@dataclass(frozen=True, slots=True)
class RealCollector:
    """A running one."""

    address: str
    file: Path

    @property
    def variables(self) -> dict[str, str]:
        """What makes a service send its spans there."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{self.address}", "OTEL_BSP_SCHEDULE_DELAY": QUICKLY}

    def received(self) -> Collector:
        """What it has written so far."""
        found = Collector()
        for message in _messages(self.file.read_bytes()):
            found.take_bytes(message)
        return found


def _messages(written: bytes) -> Iterator[bytes]:
    at = 0
    while at + _SIZE <= len(written):
        end = at + _SIZE + int.from_bytes(written[at : at + _SIZE])
        if end <= len(written):
            yield written[at + _SIZE : end]
        at = end


@asynccontextmanager
async def otel_collector(folder: Path) -> AsyncIterator[RealCollector]:
    """It runs while the context is open."""
    collector = RealCollector(f"{HOST}:{free_port()}", folder / "spans")

    async def listens() -> str:
        try:
            _, writer = await asyncio.open_connection(*collector.address.split(":"))
        except OSError as error:
            return str(error)
        writer.close()
        return ""

    program = str(find_toolset().program(Program.COLLECTOR))
    config = _CONFIG.format(address=collector.address, file=collector.file)
    command = Command(Program.COLLECTOR, [program, "--config", f"yaml:{config}"], {"PATH": os.defpath}, listens)
    process = Supervised(command, folder / "collector.log", start_timeout=60, stop_patience=10)
    try:
        await process.start()
        yield collector
    finally:
        await process.stop()
