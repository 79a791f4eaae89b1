"""The Hub of made-up models serves what the downloader fetches and verifies."""

from pathlib import Path

import pytest
from support.downloads import Program

from aim_local.actors.settings import Weights, variables
from aim_local.hub import WEIGHTS, local_hub

URI = "hf://Qwen/Qwen3-32B"


@pytest.mark.spec("AR-755", "AR-155", "AR-720")
async def test_every_repository_is_there_and_verifies(tmp_path: Path) -> None:
    program = Program(tmp_path)
    async with local_hub(pause=0) as url:
        size = await program.check_size(URI, HF_ENDPOINT=url)
        ended = await program.download(URI, HF_ENDPOINT=url, AIM_DOWNLOADER_PROTOCOL="XET,HF_TRANSFER")
    assert ended.code == 0, ended.err
    found = program.files()
    weights = [content for name, content in found.items() if name.endswith(".safetensors")]
    assert len(set(weights)) == len(weights) > 1
    assert sum(map(len, weights)) <= WEIGHTS
    assert size.termination["sizeBytes"] == sum(map(len, found.values()))


@pytest.mark.parametrize("own", [{"HF_ENDPOINT": "u"}, {"AWS_ENDPOINT_URL": "u"}, {"AIM_DEBUG_CAUSE_HANG": "1"}])
@pytest.mark.parametrize("weights", Weights)
def test_who_says_where_weights_come_from_gets_no_other(weights: Weights, own: dict[str, str]) -> None:
    own = own | {"EXPECTED_SIZE_BYTES": str(61 << 30)}
    assert variables(weights, "http://hub", own, URI) == own


@pytest.mark.parametrize(
    ("weights", "source", "given"),
    [
        (Weights.SIMULATED, URI, "AIM_DEBUG_SIMULATE_DOWNLOAD"),
        (Weights.HUB, URI, "HF_ENDPOINT"),
        (Weights.HUB, "s3://bucket/key", "AIM_DEBUG_SIMULATE_DOWNLOAD"),
    ],
)
def test_made_up_weights_are_small_whatever_was_reported(weights: Weights, source: str, given: str) -> None:
    found = variables(weights, "http://hub", {"EXPECTED_SIZE_BYTES": str(61 << 30), "A": "1"}, source)
    assert given in found
    assert (found["EXPECTED_SIZE_BYTES"], found["A"]) == (str(WEIGHTS), "1")
    assert variables(Weights.SOURCE, "", {"A": "1"}, source) == {"A": "1"}
