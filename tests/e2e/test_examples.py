"""Each example ends as its page says, after the commands that it shows."""

import shutil
from pathlib import Path

import pytest
from support.shown import blocks
from support.stack import OWN, Platform, status_of
from support.terminal import Terminal

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(page.parent for page in (ROOT / "examples").glob("*/README.md"))
ON_A_CLUSTER = [one for one in EXAMPLES if not (one / "values.yaml").exists()]


@pytest.mark.parametrize("example", ON_A_CLUSTER, ids=lambda one: one.name)
async def test_an_example_ends_as_its_page_says(platform: Platform, tmp_path: Path, example: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on this machine")
    shell = Terminal(platform.stack.kubeconfig, tmp_path)
    shown = dict(blocks(example / "README.md"))
    typed, expected, removed = shown[""], shown["text"], shown["sh"]
    try:
        for line in typed.splitlines():
            await shell.type(f"cd {ROOT} && {line}")
        for line in expected.splitlines():
            kind, named, state = line.split()
            namespace, name = named.split("/")
            obj = (await platform.api.get(f"{OWN}/namespaces/{namespace}/{kind.lower()}s/{name}")).body
            assert status_of(obj) == state
    finally:
        # Other examples need the GPUs.
        await shell.type(removed)
