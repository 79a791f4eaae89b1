"""A release, as its users install it."""

import shutil
import subprocess
import sys
import venv
from pathlib import Path
from platform import machine
from zipfile import ZipFile

import pytest

from aim_packaging.command import Platform
from aim_packaging.images.layout import Layout
from aim_packaging.release import Release
from controller_runtime import __version__

ROOT = Path(__file__).parents[2]
# Libraries are installed twice.
pytestmark = pytest.mark.timeout(900)


def said(*command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    words = [str(one) for one in command]
    done = subprocess.run(words, check=False, capture_output=True, text=True, cwd=cwd, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.spec("FW-887")
def test_the_command_installs_from_wheels_and_runs_as_one_file(tmp_path: Path) -> None:
    folder, key = tmp_path / "release", None
    # A machine without OpenSSH makes releases that are not signed.
    if shutil.which("ssh-keygen"):
        key = tmp_path / "key"
        said("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
    here = Platform(sys.platform.replace("darwin", "macos"), machine(), (sys.version_info.minor,))
    # The compiled libraries of a platform that no part of this run has.
    other = Platform("macos", "arm64", (12,)) if here.machine == "x86_64" else Platform("linux", "x86_64", (12,))
    made = list(
        Release(__version__, ROOT, folder, (here, other)).make(
            Layout(tmp_path / "none"), "registry.example.com/aim", key
        )
    )
    assert made[0] == f"aim-engine-{__version__}.tgz"
    assert any(one.startswith("no images: ") and "make images" in one for one in made)
    checked = said("sha256sum", "--check", "SHA256SUMS", cwd=folder)
    files = {str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file()}
    assert checked.count(": OK") == len(files - {"SHA256SUMS", "SHA256SUMS.sig"})
    assert ("SHA256SUMS.sig" in files) == (key is not None)
    if key is not None:
        allowed = tmp_path / "allowed"
        allowed.write_text(f"team {(tmp_path / 'key.pub').read_text()}")
        verify = f"ssh-keygen -Y verify -f {allowed} -I team -n file -s SHA256SUMS.sig < SHA256SUMS"
        assert "Good" in said("sh", "-c", verify, cwd=folder)

    compiled = {one for one in ZipFile(folder / other.file).namelist() if one.endswith(".so")}
    assert any("cpython-312" in one for one in compiled)
    assert not any(f"cpython-3{sys.version_info.minor}" in one for one in compiled)
    assert said(
        folder / here.file,
        "version",
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PEX_ROOT": str(tmp_path / "pex")},
    )
    place = tmp_path / "venv"
    venv.create(place, with_pip=True)
    pip = (place / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps")
    said(*pip, "--require-hashes", "-r", folder / "aim-requirements.txt")
    said(*pip, *sorted((folder / "wheels").glob("*.whl")))
    assert said(place / "bin/aim", "version").strip() == f"aim {__version__}"
    assert "Usage" in said(place / "bin/aim", "why", "-h")
