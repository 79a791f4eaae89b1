"""Names that a source may not give its files."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aim_artifacts.downloader.failure import DownloadError
from aim_artifacts.downloader.names import MOST_FILES, at_most, check_names
from aim_artifacts.downloader_contract import ExitCode


@pytest.mark.spec("AR-847")
def test_a_list_without_end_is_refused_at_its_bound() -> None:
    asked = itertools.count()
    with pytest.raises(DownloadError, match="hf://a/b has more than 100000 files") as refused:
        list(at_most(asked, "hf://a/b"))
    assert refused.value.code == ExitCode.USAGE
    assert next(asked) == MOST_FILES + 1
    assert len(list(at_most(range(MOST_FILES), "s3://a/b"))) == MOST_FILES


@pytest.mark.spec("AR-738", "AR-806")
@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["../evil"], "would leave"),
        (["a/../../evil"], "would leave"),
        (["/etc/passwd"], "would leave"),
        (["a//b"], "empty part"),
        (["./a"], "empty part"),
        (["a/"], "empty part"),
        ([""], "empty part"),
        (["a\x00b"], "control character"),
        (["a\nb"], "control character"),
        (["é" * 128], "more than 255 bytes"),
        ([".cache/aim-s3/a.json"], "notes of the downloader"),
        ([".cache/huggingface/download/a.metadata"], "notes of the downloader"),
        ([".Cache/AIM-S3/a.json"], "notes of the downloader"),
        ([".cache"], "or in their place"),
        (["Model.bin", "model.bin"], "are one file"),
        (["caf\u00e9", "cafe\u0301"], "are one file"),
        (["a", "a/b"], "is a file and the folder"),
        (["A/b", "a"], "is a file and the folder"),
    ],
)
def test_names_that_are_refused(tmp_path: Path, names: list[str], why: str) -> None:
    with pytest.raises(DownloadError, match=why) as refused:
        check_names(names, tmp_path)
    assert refused.value.code is ExitCode.USAGE


@pytest.mark.spec("AR-806")
def test_names_that_are_taken(tmp_path: Path) -> None:
    check_names(
        ["a/b", "a/c", "a.b", ".gitattributes", ".cache/other", "é" * 127, "..a", "a..", "onnx/model.onnx"], tmp_path
    )


@pytest.mark.spec("AR-806")
def test_links_that_lead_out_are_not_followed(tmp_path: Path) -> None:
    target, outside = tmp_path / "target", tmp_path / "outside"
    (target / "real").mkdir(parents=True)
    outside.mkdir()
    (target / "out").symlink_to(outside)
    (target / "in").symlink_to(target / "real")
    (target / "file").symlink_to(outside / "secret")
    check_names(["in/a", "real/b"], target)
    for name in ("out/a", "out/deep/a", "file"):
        with pytest.raises(DownloadError, match="leads out of the target directory by the link"):
            check_names([name], target)


@pytest.mark.spec("AR-806")
@given(st.lists(st.text(alphabet="aA./\u00e9e\u0301", max_size=8), max_size=4, unique=True))
def test_what_is_taken_ends_up_as_files_of_their_own(names: list[str]) -> None:
    target = Path("/target")
    try:
        check_names(names, target)
    except DownloadError:
        return
    places = [target / name for name in names]
    assert all(".." not in place.parts and place.is_relative_to(target) and place != target for place in places)
    assert len({str(place).casefold() for place in places}) == len(names)
    assert not any(one != other and other.is_relative_to(one) for one in places for other in places)
