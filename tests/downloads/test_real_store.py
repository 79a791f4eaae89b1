"""Downloads from a real S3 store, by the real program as a process."""

import os
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
from support.downloads import Program, kill_all
from support.nats import eventually
from support.object_store import ObjectStore, object_store

URI = "s3://models/org/tiny"
MIB = 1 << 20


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[ObjectStore]:
    async with object_store(tmp_path / "store") as running:
        yield running


@pytest.mark.spec("AR-164", "AR-735", "AR-745", "AR-756", "SC-055")
async def test_what_is_below_the_key_arrives_once(program: Program, store: ObjectStore) -> None:
    files = {
        "config.json": b"{}",
        "empty": b"",
        "a b+c%20d/größe.bin": os.urandom(3 * MIB),
        "deep/er/weights.safetensors": os.urandom(MIB + 1),
    }
    for name, content in files.items():
        store.put(f"org/tiny/{name}", content)
    store.put("org/tiny-large/other", b"o")
    size = await program.check_size(URI, **store.variables)
    assert size.termination == {"url": URI, "sizeBytes": sum(map(len, files.values()))}, size.err
    first = await program.download(URI, **store.variables)
    assert first.code == 0, first.err
    assert program.files() == files
    written = {path: path.stat().st_ino for path in program.target.rglob("*") if path.is_file()}
    assert (await program.download(URI, **store.variables)).code == 0
    assert {path: path.stat().st_ino for path in program.target.rglob("*") if path.is_file()} == written


@pytest.mark.spec("AR-736", "AR-766")
@pytest.mark.parametrize(
    ("uri", "variables", "code"),
    [
        (URI, {"AWS_SECRET_ACCESS_KEY": "of-somebody-else"}, 10),
        (URI, {"AWS_ACCESS_KEY_ID": "nobody"}, 10),
        ("s3://models/absent", {}, 11),
        ("s3://absent/x", {}, 11),
        ("s3://no bucket/x", {}, 11),
    ],
)
async def test_refusals(program: Program, store: ObjectStore, uri: str, variables: dict[str, str], code: int) -> None:
    store.put("org/tiny/a", b"a")
    ended = await program.download(uri, **store.variables | variables)
    assert ended.code == code, ended.err
    assert "of-somebody-else" not in ended.err


@pytest.mark.spec("AR-807", "AR-745", "AR-746")
async def test_killed_again_and_again_it_goes_on_where_it_was(program: Program, store: ObjectStore) -> None:
    content = os.urandom(128 * MIB)
    store.put("org/tiny/a.bin", content)
    there = 0
    for _ in range(3):
        process = await program.start("aim_artifacts.downloader", URI, store.variables)
        await eventually(partial(has_more, program, there), "there is more of it", interval=0.001)
        kill_all(process.pid)
        assert (await program.ended(process)).code == -signal.SIGKILL
        assert there < begun(program) < len(content), "nothing of it is lost"
        there = begun(program)
    ended = await program.download(URI, **store.variables)
    assert ended.code == 0, ended.err
    assert program.files() == {"a.bin": content}


def has_more(program: Program, before: int) -> bool:
    return begun(program) > before


def begun(program: Program) -> int:
    return sum(program.sizes("*.part"))
