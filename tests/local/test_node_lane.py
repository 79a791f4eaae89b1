"""The tests of a node, where no node is there: that pytest finds them as `make test-e2e CLUSTER=node` runs them."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_command_of_the_lane_finds_its_tests() -> None:
    env = {**os.environ, "CLUSTER": "node"}
    command = (sys.executable, "-m", "pytest", "--collect-only", "--quiet", "tests/node")
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
