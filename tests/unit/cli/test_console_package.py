"""The pages of `aim console` are a package of their own, without which the command has no web server (FW-889)."""

import subprocess
import sys

import pytest

WITHOUT = """
import sys
sys.modules.update(dict.fromkeys({absent}))
sys.argv = {words}
from aim_cli.__main__ import main
main()
"""
WEB = ["starlette", "uvicorn", "jinja2"]


def ran(absent: list[str], *words: str) -> tuple[int, str]:
    """The command where some packages are not installed."""
    program = WITHOUT.format(absent=absent, words=["aim", *words])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.spec("FW-889")
def test_no_other_command_needs_a_web_server() -> None:
    code, said = ran(["aim_console", *WEB], "why", "chat", "--kubeconfig", "none")
    assert code == 4, said
    assert "Traceback" not in said


@pytest.mark.spec("FW-889")
def test_without_its_package_the_console_says_what_to_install() -> None:
    code, said = ran(["aim_console"], "console")
    assert (code, said.strip()) == (
        2,
        "aim: the console missing: its pages are the package aim-console; install that of this release",
    )
