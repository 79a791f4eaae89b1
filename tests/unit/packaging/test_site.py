"""The documentation of several releases, side by side."""

import json
from pathlib import Path

import pytest

from aim_packaging.site import LIST, publish


@pytest.mark.spec("FW-888")
def test_versions_are_listed_newest_first_and_the_root_leads_to_the_newest_release(tmp_path: Path) -> None:
    built, folder = tmp_path / "built", tmp_path / "site"
    built.mkdir()
    (built / "index.html").write_text("old")
    (built / "gone.html").write_text("a page that the next build has no more")
    for version in ("0.9.0", "0.10.0", "0.11.0-rc.1"):
        publish(built, folder, version)
    (folder / "assets").mkdir()
    (built / "index.html").write_text("new")
    (built / "gone.html").unlink()

    assert publish(built, folder, "0.9.0") == ["0.11.0-rc.1", "0.10.0", "0.9.0"]
    assert json.loads((folder / LIST).read_text()) == ["0.11.0-rc.1", "0.10.0", "0.9.0"]
    assert "url=0.10.0/index.html" in (folder / "index.html").read_text()
    assert [one.read_text() for one in (folder / "0.9.0").iterdir()] == ["new"]
    assert (folder / "0.10.0/index.html").read_text() == "old"


@pytest.mark.spec("FW-888")
def test_a_prerelease_is_the_newest_where_there_is_no_release(tmp_path: Path) -> None:
    (tmp_path / "built").mkdir()
    publish(tmp_path / "built", tmp_path / "site", "0.1.0-rc.1")
    assert "url=0.1.0-rc.1/index.html" in (tmp_path / "site/index.html").read_text()
