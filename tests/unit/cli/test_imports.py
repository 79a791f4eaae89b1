"""What commands that read the event log import, which is most of the time until their first line."""

import subprocess
import sys

import pytest

from aim_cli.log.targets import LOGGED
from aim_cli.parts import PARTS

READ = ("log.telling", "log.past", "installation.bus_state", "log.exporting", "why.decided")
"""Modules of the commands `timeline`, `state`, `diff`, `bus`, `export` and `why`."""
HEAVY = (
    "aim_domain.kinds",
    "aiohttp.client",
    "controller_runtime.core",
    "controller_runtime.kube.client",
    "controller_runtime.reconcile",
    "opentelemetry.sdk",
    "prometheus_client",
    "pydantic_settings",
    "rich",
    "urllib3",
)


def output_of(program: str) -> str:
    """What a process of its own prints: what others have imported here would count."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


@pytest.mark.spec("FW-684")
@pytest.mark.parametrize("module", READ)
def test_who_reads_the_log_imports_little(module: str) -> None:
    program = f"import sys, aim_cli.{module}; print([one for one in {HEAVY} if one in sys.modules])"
    assert output_of(program) == "[]\n"


@pytest.mark.spec("FW-684")
def test_a_service_is_imported_when_it_is_asked_for() -> None:
    program = (
        "import sys; from aim_cli.services import services; code = services(); assert len(list(code)) == 5; "
        "code['routing']; print([one for one in ('aim_serving', 'aim_discovery', 'aim_routing') if one in sys.modules])"
    )
    assert output_of(program) == "['aim_routing']\n"


@pytest.mark.spec("FW-684")
def test_what_was_left_out_is_there_for_who_uses_it() -> None:
    program = (
        "import aim_cli.log.connecting, nats.aio.transport as transport, aiohttp, aiohttp.abc, rich.console; "
        "print(transport.aiohttp.ClientSession is aiohttp.ClientSession, aiohttp.ClientSession.__module__)"
    )
    assert output_of(program) == "True aiohttp.client\n"


@pytest.mark.spec("FW-684")
def test_the_parts_of_the_log_are_those_of_the_platform() -> None:
    logged = [(one.name, one.kind.kind, one.kind.resource, one.kind.namespaced, one.optional) for one in LOGGED]
    there = [(one.name, one.kind.kind, one.kind.resource, one.kind.namespaced, one.optional) for one in PARTS]
    assert sorted(logged) == sorted(there)
