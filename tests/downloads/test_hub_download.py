"""Downloads from a Hub, by the real program as a process."""

import asyncio
import os
import signal
from urllib.parse import unquote

import pytest
from support.downloads import COMMIT, FakeHub, Program, kill_all, serving
from support.nats import eventually

URI = "hf://org/model"
TOP = {"config.json", "model.safetensors", ".gitattributes"}


@pytest.mark.spec("AR-401", "AR-403", "AR-408", "AR-720", "AR-728", "AR-729", "AR-755", "SC-050", "SC-054", "AR-P17")
async def test_selected_files_arrive_and_are_verified(program: Program, hub: FakeHub) -> None:
    ended = await program.download(URI, HF_ENDPOINT=hub.url, AIM_DOWNLOADER_PROTOCOL="HTTP")
    assert ended.code == 0, ended.err
    assert program.files() == {name: hub.files[name] for name in TOP}
    assert "verified 3 files" in ended.err


@pytest.mark.spec("AR-402", "AR-406", "AR-410", "SC-050", "AR-163")
@pytest.mark.parametrize(
    ("text", "selected"),
    [
        (
            "{}",
            {"config.json", "model.safetensors", "onnx/model.onnx", "original/consolidated.00.pth", ".gitattributes"},
        ),
        ('{"include":["onnx/"]}', {"onnx/model.onnx"}),
    ],
)
async def test_estimate_and_download_agree(program: Program, hub: FakeHub, text: str, selected: set[str]) -> None:
    size = await program.check_size(URI, HF_ENDPOINT=hub.url, AIM_DOWNLOAD_FILTER=text)
    assert size.termination == {"url": URI, "sizeBytes": sum(len(hub.files[name]) for name in selected)}
    ended = await program.download(URI, HF_ENDPOINT=hub.url, AIM_DOWNLOAD_FILTER=text)
    assert ended.code == 0, ended.err
    assert set(program.files()) == selected


@pytest.mark.spec("AR-826", "AR-729")
@pytest.mark.parametrize(("pin", "asked"), [("@v1.0", "v1.0"), (":refs/pr/7", "refs%2Fpr%2F7")])
async def test_the_pinned_revision_is_measured_and_downloaded(
    program: Program, hub: FakeHub, pin: str, asked: str
) -> None:
    size = await program.check_size(f"{URI}{pin}", HF_ENDPOINT=hub.url)
    ended = await program.download(f"{URI}{pin}", HF_ENDPOINT=hub.url, AIM_DOWNLOADER_PROTOCOL="HTTP")
    assert (size.code, ended.code) == (0, 0), size.err + ended.err
    assert set(program.files()) == TOP
    asked_for = [path for path, _ in hub.tokens if "/revision/" in path]
    assert asked_for == [f"/api/models/org/model/revision/{unquote(asked)}"]
    assert f"verified 3 files of org/model at {COMMIT}" in ended.err


@pytest.mark.spec("AR-410", "AR-764", "AR-765", "SC-120", "AR-770")
async def test_a_filter_that_selects_nothing(program: Program, hub: FakeHub) -> None:
    nothing = '{"include":["*"],"exclude":["*"]}'
    ended = await program.check_size(URI, HF_ENDPOINT=hub.url, AIM_DOWNLOAD_FILTER=nothing)
    assert (ended.code, ended.out) == (16, "")
    assert ended.termination["category"] == "NoMatchingFiles"


@pytest.mark.spec("AR-727", "AR-764", "AR-765", "AR-766", "SC-125")
@pytest.mark.parametrize(
    ("refusal", "code", "category"),
    [
        ((401, "GatedRepo"), 10, "Auth"),
        ((403, "GatedRepo"), 10, "Auth"),
        ((401, "Invalid credentials in Authorization header"), 10, "Auth"),
        ((500, "Overloaded"), 15, "DownloadFailed"),
        ((401, "RepoNotFound"), 11, "SourceNotFound"),
        ((404, "RepoNotFound"), 11, "SourceNotFound"),
        ((404, "RevisionNotFound"), 11, "SourceNotFound"),
    ],
)
async def test_refusals_of_the_hub(
    program: Program, hub: FakeHub, refusal: tuple[int, str], code: int, category: str
) -> None:
    hub.refusal = refusal
    ended = await program.download(URI, HF_ENDPOINT=hub.url, AIM_DOWNLOADER_PROTOCOL="XET,HTTP")
    assert (ended.code, ended.termination["category"]) == (code, category), ended.err


@pytest.mark.spec("AR-745", "AR-757", "SC-029")
async def test_a_corrupt_file_is_removed_and_downloaded_again(program: Program, hub: FakeHub) -> None:
    hub.faults.corrupt = {"model.safetensors"}
    first = await program.download(URI, HF_ENDPOINT=hub.url, AIM_DOWNLOADER_PROTOCOL="HTTP")
    assert (first.code, first.termination["category"]) == (13, "VerificationFailed"), first.err
    assert set(program.files()) == TOP - {"model.safetensors"}
    hub.downloads.clear()
    second = await program.download(URI, HF_ENDPOINT=hub.url, AIM_DOWNLOADER_PROTOCOL="HTTP")
    assert second.code == 0, second.err
    assert hub.downloads == ["model.safetensors"]


@pytest.mark.spec("AR-726", "AR-748", "AR-749", "SC-027", "AR-P13")
async def test_a_stalled_protocol_is_killed_and_the_next_is_watched_too(program: Program, hub: FakeHub) -> None:
    hub.faults.hanging = True
    ended = await program.download(
        URI, HF_ENDPOINT=hub.url, AIM_DOWNLOADER_PROTOCOL="HTTP,HF_TRANSFER", STALL_TIMEOUT="2", PROGRESS_INTERVAL="0.2"
    )
    assert (ended.code, ended.termination["category"]) == (14, "Stalled"), ended.err
    assert "attempt 1 of 2" in ended.err
    assert "attempt 2 of 2" in ended.err


@pytest.mark.spec("AR-711", "AR-764")
async def test_sigterm_ends_program_and_transfer(program: Program, hub: FakeHub) -> None:
    hub.faults.hanging = True
    process = await program.start("aim_artifacts.downloader", URI, {"HF_ENDPOINT": hub.url})
    async with asyncio.timeout(60):
        await hub.faults.asked.wait()
    process.send_signal(signal.SIGTERM)
    ended = await program.ended(process)
    assert ended.code == 143, ended.err


@pytest.mark.spec("AR-702", "AR-406", "SC-120")
@pytest.mark.parametrize(
    ("uri", "variables"),
    [("ftp://x", {}), ("hf://", {}), (URI, {"AIM_DOWNLOAD_FILTER": "no json"}), (URI, {"STALL_TIMEOUT": "soon"})],
)
async def test_usage_errors(program: Program, uri: str, variables: dict[str, str]) -> None:
    ended = await program.download(uri, **variables)
    assert (ended.code, ended.termination["category"]) == (2, "Usage")


@pytest.mark.spec("AR-806")
async def test_a_hub_that_lists_a_way_out_writes_and_removes_nothing(program: Program, hub: FakeHub) -> None:
    precious = program.directory / "precious"
    precious.write_bytes(b"mine")
    hub.files = {"config.json": b"{}", "../precious": b"theirs"}
    ended = await program.download(URI, HF_ENDPOINT=hub.url, AIM_DOWNLOAD_FILTER="{}")
    assert (ended.code, ended.termination["category"]) == (2, "Usage"), ended.err
    assert "'../precious' would leave the target directory" in ended.err
    assert (precious.read_bytes(), hub.downloads, program.files()) == (b"mine", [], {})


async def killed_half_way(program: Program, hub: FakeHub, **variables: str) -> None:
    """Kill it and its transfer when half of the large file is there, which the given one serves."""
    hub.faults.half = {name for name in hub.files if name.endswith(".safetensors")}
    process = await program.start("aim_artifacts.downloader", URI, {"HF_ENDPOINT": hub.url} | variables)

    def has_half() -> bool:
        return any(size > 1 << 20 for size in program.sizes("*.incomplete"))

    await eventually(has_half, "half of it is there")
    kill_all(process.pid)
    assert (await program.ended(process)).code == -signal.SIGKILL
    hub.faults.half = set()
    hub.faults.ranges.clear()


@pytest.mark.spec("AR-807", "AR-745", "SC-124")
async def test_a_file_that_http_began_is_continued_after_a_kill(program: Program, hub: FakeHub) -> None:
    hub.files["model.safetensors"] = os.urandom(64 << 20)
    await killed_half_way(program, hub, AIM_DOWNLOADER_PROTOCOL="HTTP")
    ended = await program.download(URI, HF_ENDPOINT=hub.url, AIM_DOWNLOADER_PROTOCOL="HTTP")
    assert ended.code == 0, ended.err
    [start] = [first for name, first in hub.faults.ranges if name == "model.safetensors"]
    assert start > 1 << 20, "the rest alone is asked for"
    assert program.files()["model.safetensors"] == hub.files["model.safetensors"]
    assert not list(program.target.rglob("*.incomplete"))


@pytest.mark.spec("AR-807")
async def test_of_two_files_of_one_content_each_is_continued_as_far_as_it_was(program: Program, hub: FakeHub) -> None:
    same = os.urandom(32 << 20)
    hub.files |= {"model.safetensors": same, "twin.safetensors": same}
    hub.large.add("twin.safetensors")
    await killed_half_way(program, hub, AIM_DOWNLOADER_PROTOCOL="HTTP")
    ended = await program.download(URI, HF_ENDPOINT=hub.url, AIM_DOWNLOADER_PROTOCOL="HTTP")
    assert ended.code == 0, ended.err
    assert (program.files()["model.safetensors"], program.files()["twin.safetensors"]) == (same, same)


@pytest.mark.spec("AR-807", "AR-724", "SC-124")
async def test_what_another_protocol_began_makes_room_for_the_next(program: Program, hub: FakeHub) -> None:
    hub.files["model.safetensors"] = os.urandom(64 << 20)
    await killed_half_way(program, hub, AIM_DOWNLOADER_PROTOCOL="HTTP")
    (program.target / ".cache/huggingface/aim-http").unlink()
    ended = await program.download(URI, HF_ENDPOINT=hub.url, AIM_DOWNLOADER_PROTOCOL="HTTP")
    assert ended.code == 0, ended.err
    assert [first for name, first in hub.faults.ranges if name == "model.safetensors"] == [0]
    assert not list(program.target.rglob("*.incomplete"))


@pytest.mark.spec("AR-808")
@pytest.mark.parametrize("killed", [False, True])
async def test_the_token_goes_to_nobody_but_the_hub(program: Program, hub: FakeHub, *, killed: bool) -> None:
    hub.files["model.safetensors"] = os.urandom(32 << 20)
    hub.storage = FakeHub(files=hub.files, large=hub.large)
    access = {"AIM_DOWNLOADER_PROTOCOL": "HTTP", "HF_TOKEN": "hf_none"}
    async with serving(hub.storage):
        if killed:
            await killed_half_way(program, hub.storage, HF_ENDPOINT=hub.url, **access)
        ended = await program.download(URI, HF_ENDPOINT=hub.url, **access)
    assert ended.code == 0, ended.err
    assert {token for _, token in hub.tokens} == {"Bearer hf_none"}
    assert {token for _, token in hub.storage.tokens} == {None}
    assert ("model.safetensors", 0) not in hub.storage.faults.ranges or not killed
