"""The property tests of the suite, with examples that nobody has chosen."""

import asyncio
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from matrix.case import Case, Outcome, Scenario
from matrix.site import Site

_TESTS: Final = Path(__file__).parents[1]
_PASSED: Final = re.compile(r"(\d+) passed")
_TIMEOUT: Final = 240.0
_REPORTED: Final = 25
"""Lines of a failing run that are told; its falsifying example is among them."""


async def _explore(file: Path, _: Site | None, chance: random.Random) -> Outcome:
    seed = chance.getrandbits(32)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "200",
        f"--hypothesis-seed={seed}", str(file),
        cwd=_TESTS.parent, env={**os.environ, "AIM_EXPLORE": "random"},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_TIMEOUT):
            out, _err = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return Outcome(differences=[f"not over after {_TIMEOUT:g} s"])
    text = out.decode(errors="replace")
    passed = _PASSED.search(text)
    outcome = Outcome(Counter({"random seed": 1}), int(passed[1]) if passed else 0)
    if process.returncode:
        outcome.differences = text.splitlines()[-_REPORTED:]
    return outcome


def _cases() -> Sequence[Case]:
    files = sorted((_TESTS / "unit").rglob("test_*.py"))
    having = [file for file in files if "from hypothesis" in file.read_text(encoding="utf-8")]
    return [
        Case("properties", file.stem.removeprefix("test_"), partial(_explore, file), platform=False) for file in having
    ]


SCENARIO: Final = Scenario("properties", "random examples", "tests", _cases)
