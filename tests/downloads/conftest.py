"""Fixtures: the program, a Hub, an S3 store, a control plane with an artifact."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from support.controlplane import api, controlplane
from support.downloads import FakeHub, FakeS3, Program, serving

__all__ = ["api", "controlplane"]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


@pytest_asyncio.fixture
async def hub() -> AsyncIterator[FakeHub]:
    repository = FakeHub(
        files={
            "config.json": b"{}",
            "model.safetensors": b"w" * 5000,
            "onnx/model.onnx": b"o" * 700,
            "original/consolidated.00.pth": b"p" * 900,
            ".gitattributes": b"*",
        },
        large={"model.safetensors"},
    )
    async with serving(repository):
        yield repository


@pytest_asyncio.fixture
async def bucket() -> AsyncIterator[FakeS3]:
    store = FakeS3(
        objects={
            "models/tiny/a.bin": b"a" * 10,
            "models/tiny/sub/b.json": b"{}",
            "models/tiny-large/b": b"b" * 99,
        }
    )
    async with serving(store):
        yield store
