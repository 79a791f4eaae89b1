"""Each example ends as its page says, after the commands that it shows."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.object_store import object_store
from support.shown import blocks
from support.stack import OWN, Platform, status_of
from support.terminal import Terminal

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(page.parent for page in (ROOT / "examples").glob("*/README.md"))
ON_A_CLUSTER = [one for one in EXAMPLES if list(one.glob("service*.yaml"))]
KEYS = ("KEY-ID", "SECRET-KEY")


@asynccontextmanager
async def with_store(folder: Path) -> AsyncIterator[Path]:
    """The examples, with the store and the keys of a reader in the place of those that they show."""
    async with object_store(folder / "store") as store:
        for name in ("config.json", "model.safetensors"):
            store.put(f"qwen3-tuned/{name}", b"{}")
        mine = dict(zip(KEYS, list(store.variables.values())[:2], strict=True)) | {"https://s3.example.com": store.url}
        shutil.copytree(ROOT / "examples", folder / "examples")
        for file in (folder / "examples").glob("*/*"):
            text = file.read_text("utf-8")
            for shown, own in mine.items():
                text = text.replace(shown, own)
            file.write_text(text, "utf-8")
        yield folder / "examples"


@pytest.mark.parametrize("example", ON_A_CLUSTER, ids=lambda one: one.name)
async def test_an_example_ends_as_its_page_says(platform: Platform, tmp_path: Path, example: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on this machine")
    shell = Terminal(platform.stack.kubeconfig, tmp_path)
    async with with_store(tmp_path) as examples:
        await follow(platform, shell, examples / example.name)


async def follow(platform: Platform, shell: Terminal, example: Path) -> None:
    shown = list(blocks(example / "README.md"))
    typed = "".join(text for language, text in shown if language == "")
    [expected], [removed] = ([text for language, text in shown if language == one] for one in ("text", "sh"))
    try:
        for line in typed.splitlines():
            await shell.type(f"cd {example.parents[1]} && {line}")
        for line in expected.splitlines():
            kind, named, state = line.split()
            namespace, name = named.split("/")
            obj = (await platform.api.get(f"{OWN}/namespaces/{namespace}/{kind.lower()}s/{name}")).body
            assert status_of(obj) == state
    finally:
        # Other examples need the GPUs.
        await shell.type(removed)
