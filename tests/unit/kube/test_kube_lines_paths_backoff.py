"""Small pure parts of the client: URLs, lines, delays, limiter."""

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aim_domain.kind_names import AIM_SERVICE, CONFIG_MAP, NAMESPACE
from controller_runtime import object_path
from controller_runtime.backoff import Backoff
from controller_runtime.kind_names import collection_path
from controller_runtime.kube import client as lines
from controller_runtime.kube.client import LineSplitter
from controller_runtime.kube.transport import Limiter, LimiterStatistics


def test_paths() -> None:
    assert collection_path(AIM_SERVICE, None) == "/apis/aim.eai.amd.com/v1alpha1/aimservices"
    assert object_path(CONFIG_MAP, "a", "team", "scale") == "/api/v1/namespaces/team/configmaps/a/scale"
    assert object_path(CONFIG_MAP, "a/../b", "t m") == "/api/v1/namespaces/t%20m/configmaps/a%2F..%2Fb"
    assert (AIM_SERVICE.api_version, CONFIG_MAP.api_version) == ("aim.eai.amd.com/v1alpha1", "v1")
    assert (AIM_SERVICE.resource, CONFIG_MAP.resource) == (
        "aimservices.aim.eai.amd.com",
        "configmaps",
    )


@pytest.mark.parametrize("name", [".", ".."])
def test_names_that_walk_up_the_path_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        object_path(CONFIG_MAP, name, "team")


def test_scope_and_namespace_must_agree() -> None:
    with pytest.raises(ValueError, match="cluster-scoped"):
        object_path(NAMESPACE, "a", "team")
    with pytest.raises(ValueError, match="needs a namespace"):
        object_path(CONFIG_MAP, "a", None)


@given(st.lists(st.binary(max_size=20)), st.data())
def test_lines_do_not_depend_on_how_the_stream_is_cut(texts: list[bytes], data: st.DataObject) -> None:
    wanted = [text.replace(b"\n", b"") for text in texts]
    stream = b"".join(line + b"\n" for line in wanted)
    splitter, got = LineSplitter(), list[bytes]()
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        got += splitter.feed(stream[:size])
        stream = stream[size:]
    assert got == [line for line in wanted if line]


def test_endless_lines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 10)
    splitter = LineSplitter()
    assert list(splitter.feed(b"12345678")) == []
    with pytest.raises(ValueError, match="API server"):
        list(splitter.feed(b"12345678"))


def test_delays_grow_to_a_cap_within_their_jitter() -> None:
    steady = Backoff(base=1, cap=10, jitter=0)
    assert [steady.delay(failures, random.Random(1)) for failures in (1, 2, 3, 4, 5, 10_000)] == [
        1, 2, 4, 8, 10, 10,
    ]  # fmt: skip
    jittered = {Backoff(base=1, jitter=0.5).delay(1, random.Random(seed)) for seed in range(50)}
    assert min(jittered) >= 0.5
    assert max(jittered) <= 1.5
    assert len(jittered) == 50


async def test_the_limiter_admits_as_many_as_it_may() -> None:
    limiter = Limiter(2)
    release = asyncio.Event()
    seen: list[LimiterStatistics] = []

    async def work() -> None:
        async with limiter.slot():
            await release.wait()

    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(work())
        for _ in range(3):
            await asyncio.sleep(0)
        seen.append(limiter.statistics())
        release.set()

    assert seen == [LimiterStatistics(limit=2, in_flight=2, waiting=3)]
    assert limiter.statistics() == LimiterStatistics(limit=2, in_flight=0, waiting=0)
