"""What `aim why` prints of a platform, run as its users run it."""

import asyncio
import sys
from dataclasses import dataclass

from support.stack import Platform


@dataclass(frozen=True)
class Said:
    """What the command printed, and how it ended."""

    code: int
    lines: list[str]
    errors: str


async def why(platform: Platform, *words: str) -> Said:
    """Run `aim why`."""
    kubeconfig = str(platform.stack.kubeconfig)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aim_cli", "why", *words, "--kubeconfig", kubeconfig),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode is not None
    return Said(process.returncode, out.decode().splitlines(), err.decode())
