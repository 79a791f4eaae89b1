"""Whatever goes wrong with a Hub or a bucket: the download ends with the code that says so, or good."""

import os
import resource

import pytest
from support.downloads import Ended, FakeHub, FakeS3, Program
from support.store_faults import Faults

MIB = 1 << 20
SOURCES = ("hub", "s3")
CONTENT = os.urandom(2 * MIB)


class Source:
    """A file ``a.bin`` of two MiB of one of both kinds, and the program with what it needs to get it."""

    def __init__(self, program: Program, store: FakeHub | FakeS3) -> None:
        self.program = program
        if isinstance(store, FakeHub):
            self.name, self.uri, self.where = "a.bin", "hf://org/model", "HF_ENDPOINT"
            store.files, store.large = {self.name: CONTENT}, {self.name}
        else:
            self.name, self.uri, self.where = "x/a.bin", "s3://models/x", "AWS_ENDPOINT_URL"
            store.objects = {self.name: CONTENT}
        self.store = store

    @property
    def faults(self) -> Faults:
        return self.store.faults

    def variables(self, **more: str) -> dict[str, str]:
        return {self.where: self.store.url, "AIM_DOWNLOADER_PROTOCOL": "HTTP", "PROGRESS_INTERVAL": "0.2", **more}

    async def download(self, **more: str) -> Ended:
        return await self.program.download(self.uri, **self.variables(**more))

    def is_there(self) -> bool:
        return self.program.files() == {"a.bin": CONTENT}


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest, program: Program, hub: FakeHub, bucket: FakeS3) -> Source:
    return Source(program, hub if request.param == "hub" else bucket)


@pytest.mark.spec("AR-737", "AR-809")
@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_store_that_is_busy_for_a_moment_is_asked_again(source: Source, status: int) -> None:
    source.faults.statuses = [status, status]
    ended = await source.download()
    assert ended.code == 0, ended.err
    assert source.is_there()


@pytest.mark.spec("AR-764", "AR-765", "AR-766", "AR-809")
@pytest.mark.parametrize(
    ("status", "code", "category"),
    [(401, 10, "Auth"), (403, 10, "Auth"), (404, 11, "SourceNotFound")],
)
async def test_content_that_is_refused(source: Source, status: int, code: int, category: str) -> None:
    source.faults.statuses = [status] * 100
    ended = await source.download()
    assert (ended.code, ended.termination["category"]) == (code, category), ended.err
    assert len(source.faults.statuses) > 90, "nobody asks again and again for what is refused"


@pytest.mark.spec("AR-809", "AR-737")
async def test_a_failure_does_not_wait_for_what_is_under_way(source: Source) -> None:
    other = source.name.replace("a.bin", "gone.bin")
    if isinstance(source.store, FakeHub):
        source.store.files[other] = CONTENT
    else:
        source.store.objects[other] = CONTENT
    source.faults.half, source.faults.missing = {source.name}, {other}
    ended = await source.download(STALL_TIMEOUT="0")
    assert ended.code == 11, ended.err


@pytest.mark.spec("AR-737", "AR-745", "AR-809")
async def test_content_that_breaks_off_twice(source: Source) -> None:
    source.faults.broken = {source.name: 2}
    ended = await source.download()
    assert ended.code == 0, ended.err
    assert source.is_there()


@pytest.mark.spec("AR-755", "AR-756", "AR-757")
async def test_content_with_other_bytes(source: Source) -> None:
    source.faults.corrupt = {source.name}
    ended = await source.download()
    assert (ended.code, ended.termination["category"]) == (13, "VerificationFailed"), ended.err
    assert source.program.files() == {}
    assert (await source.download()).code == 0
    assert source.is_there()


@pytest.mark.spec("AR-748", "SC-027")
async def test_slow_content_is_no_stall(source: Source) -> None:
    """The Hub's client writes ten MiB at a time."""
    large = bytes(64 * MIB)
    if isinstance(source.store, FakeHub):
        source.store.files[source.name] = large
    else:
        source.store.objects[source.name] = large
    # It takes longer than a stall may, and so may the start of the process that transfers, on a busy machine.
    source.faults.pause = 0.45
    ended = await source.download(STALL_TIMEOUT="8")
    assert ended.code == 0, ended.err
    assert source.program.files() == {"a.bin": large}


@pytest.mark.spec("AR-748", "AR-726")
async def test_content_that_stops_is_a_stall_and_goes_on_with_the_next_process(source: Source) -> None:
    source.faults.half = {source.name}
    ended = await source.download(STALL_TIMEOUT="1.5")
    assert (ended.code, ended.termination["category"]) == (14, "Stalled"), ended.err
    source.faults.half = set()
    source.faults.ranges.clear()
    assert (await source.download()).code == 0
    assert source.is_there()


@pytest.mark.spec("AR-766", "AR-727", "SC-125")
async def test_a_volume_that_takes_no_more(source: Source) -> None:
    """A limit of the process stands for the volume's: what the operating system says to a write decides."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, before[1]))
    try:
        process = await source.program.start("aim_artifacts.downloader", source.uri, source.variables())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    ended = await source.program.ended(process)
    assert (ended.code, ended.termination["category"]) == (12, "StorageFull"), ended.err
    assert (await source.download()).code == 0, "once there is room it goes on"
    assert source.is_there()
