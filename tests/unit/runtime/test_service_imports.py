"""What a service imports until it runs: each module costs its pod memory, and its start processor time."""

import subprocess
import sys

import pytest

from aim_domain.services import SERVICES, package_of

UNUSED = (
    "aiohttp.web",
    "botocore",
    "cryptography",
    "fastapi",
    "huggingface_hub",
    "kubernetes_asyncio",
    "opentelemetry.exporter",
    "opentelemetry.sdk",
    "typer",
    "urllib3",
)
"""What only pages for people, commands, certificates of one's own, kubeconfigs with plugins or an exporter need."""


@pytest.mark.spec("FW-289")
@pytest.mark.parametrize("service", SERVICES)
def test_a_service_imports_its_server_and_nothing_that_only_some_need(service: str) -> None:
    program = (
        f"import sys, {package_of(service)}.__main__; "
        f"print('controller_runtime.manager.http' in sys.modules, [one for one in {UNUSED} if one in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "True []\n"
