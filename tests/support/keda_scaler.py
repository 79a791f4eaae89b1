"""KEDA's external scaler, whose metric a test sets."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from aim_local.assets import Program, find_toolset
from aim_local.ports import HOST, free_port
from aim_local.supervision.process import Program as Command
from aim_local.supervision.process import Supervised


@dataclass(frozen=True, slots=True)
class Scaler:
    """A running one.

    Attributes:
        address: where KEDA asks it.
    """

    address: str
    file: Path

    def tell(self, number: int) -> None:
        """The metric from now on; the scaler is active above zero."""
        written = self.file.with_suffix(".new")
        written.write_text(str(number), encoding="ascii")
        written.replace(self.file)


@asynccontextmanager
async def keda_scaler(folder: Path) -> AsyncIterator[Scaler]:
    """It runs while the context is open; its metric is zero at first."""
    scaler = Scaler(f"{HOST}:{free_port()}", folder / "metric")
    scaler.tell(0)

    async def listens() -> str:
        try:
            _, writer = await asyncio.open_connection(*scaler.address.split(":"))
        except OSError as error:
            return str(error)
        writer.close()
        return ""

    program = str(find_toolset().program(Program.KEDA_SCALER))
    arguments = [program, f"--address={scaler.address}", f"--file={scaler.file}"]
    command = Command(Program.KEDA_SCALER, arguments, {"PATH": os.defpath}, listens)
    process = Supervised(command, folder / "scaler.log", start_timeout=60, stop_patience=10)
    try:
        await process.start()
        yield scaler
    finally:
        await process.stop()
