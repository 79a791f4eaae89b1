"""Services of a platform run as containers of their images: by their own user, without rights, on a read-only system.

`make test-e2e CONTAINERS=1`, also with CLUSTER=real, where they are the containers of the chart's pods.
"""

import os
import re
from pathlib import Path
from typing import Final

import pytest
from support.image_programs import IMAGES
from support.images import image
from support.stack import CLUSTER, started_platform

from aim_domain.services import SERVICES
from aim_local.stack import ClusterKind

_WRITABLE: Final = frozenset({"/tmp", "/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/proc"})
_IN_A_CLUSTER: Final = "KUBERNETES_SERVICE_HOST"


def reported_by(pid: int, what: str) -> str:
    return Path(f"/proc/{pid}/{what}").read_text(encoding="utf-8")


def status(pid: int) -> dict[str, str]:
    lines = (line.partition(":") for line in reported_by(pid, "status").splitlines())
    return {name: value.strip() for name, _, value in lines}


def writable(pid: int) -> set[str]:
    """Mounts that a process may write to."""
    lines = [line.split() for line in reported_by(pid, "mountinfo").splitlines()]
    return {one[4] for one in lines if "rw" in one[5].split(",") and not one[4].startswith("/proc/")}


def in_path(pid: int, name: str) -> bool:
    """Whether a program is to be found by a container; what is hidden is no file, but a device."""
    return any(Path(f"/proc/{pid}/root/{folder}/{name}").is_file() for folder in ("bin", "usr/bin"))


@pytest.mark.spec("FW-340", "FW-543", "FW-545", "FW-721")
async def test_a_service_has_the_user_the_rights_and_the_file_system_of_its_image(tmp_path: Path) -> None:
    async with started_platform(tmp_path) as platform:
        for name in SERVICES:
            pid = platform.stack[name].pid
            own, reported = image(Path(IMAGES), name), status(pid)
            if os.geteuid() == 0:
                assert {*reported["Uid"].split(), *reported["Gid"].split()} == {str(own.user)}
            assert (reported["CapEff"], reported["NoNewPrivs"]) == ("0000000000000000", "1")
            assert writable(pid) <= _WRITABLE
            env, maps = reported_by(pid, "environ"), reported_by(pid, "maps")
            assert "PYTHONPATH=/opt/aim/lib\0" in env
            assert (_IN_A_CLUSTER in env) is (CLUSTER is ClusterKind.REAL)
            assert ("KUBECONFIG=" in env) is (CLUSTER is not ClusterKind.REAL)
            assert [name for name in ("sh", "dash", "bash") if in_path(pid, name)] == [], "no shell"
            assert not re.search(r"/\.venv/|/dist-packages/", maps), "a library of this checkout"
