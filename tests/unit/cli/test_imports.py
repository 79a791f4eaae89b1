"""What commands import until their first line, which is most of the time that it takes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from aim_cli.log.targets import LOGGED
from aim_cli.parts import PARTS
from aim_domain.services import SERVICES

READ = ("log.report", "log.past", "installation.bus_state", "log.exporting", "why.decided")
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


KUBECONFIG = {
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "users": [{"name": "u", "user": {}}],
    "current-context": "c",
}
FIRST = """
import json, os, sys
before = len(sys.modules)
class First:
    def write(self, text):
        if text.strip():
            heavy = [one for one in {heavy} if one in sys.modules]
            print(json.dumps({{"said": text, "heavy": heavy, "modules": len(sys.modules) - before}}), flush=True)
            os._exit(0)
    def flush(self):
        pass
    def isatty(self):
        return {terminal}
sys.stderr = First()
sys.argv = {words}
from aim_cli.__main__ import main
main()
"""
"""Prints what a command says first on standard error, and what it has imported until then."""


def output_of(program: str) -> str:
    """What a process of its own prints: what others have imported here would count."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


@pytest.mark.spec("FW-684")
@pytest.mark.parametrize("module", READ)
def test_who_reads_the_log_imports_little(module: str) -> None:
    program = f"import sys, aim_cli.{module}; print([one for one in {HEAVY} if one in sys.modules])"
    assert output_of(program) == "[]\n"


@pytest.mark.spec("FW-728")
@pytest.mark.parametrize(
    ("words", "said", "most"),
    [
        (["doctor", "--nats-url", "nats://127.0.0.1:1"], "asking http://127.0.0.1:1", 360),
        (["plan", "-f", "file.yaml"], "planning AIMService chat for http://127.0.0.1:1", 360),
        (
            ["replay", "--all", "--nats-url", "nats://me:word@127.0.0.1:1"],
            "taking decisions again, from nats://***@127.0.0.1:1",
            500,
        ),
        (["export", "x.aimlog", "--nats-url", "nats://127.0.0.1:1"], "writing x.aimlog from nats://127.0.0.1:1", 500),
    ],
)
def test_what_takes_longer_says_first_what_it_does(
    words: list[str], said: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(KUBECONFIG), encoding="utf-8")
    service = {"apiVersion": "aim.eai.amd.com/v1alpha1", "kind": "AIMService", "metadata": {"name": "chat"}}
    (tmp_path / "file.yaml").write_text(yaml.safe_dump(service), encoding="utf-8")
    decides = [one for one in HEAVY if one != "urllib3"]
    for form, terminal in (("table", False), ("json", True)):
        asked = FIRST.format(heavy=decides, words=["aim", *words, "-o", form], terminal=terminal)
        first = json.loads(output_of(asked))
        assert (first["said"], first["heavy"]) == (said, [])
        assert first["modules"] < most
    reported = json.loads(output_of(FIRST.format(heavy=[], words=["aim", *words, "-o", "json"], terminal=False)))
    assert reported["said"].startswith("aim: "), "to programs nothing but the answer, here why there is none"


@pytest.mark.spec("FW-684")
def test_doctor_imports_neither_the_client_of_the_services_nor_what_decides() -> None:
    known = [one for one in HEAVY if one != "urllib3"]
    program = f"import sys, aim_cli.installation.examining; print([one for one in {known} if one in sys.modules])"
    assert output_of(program) == "[]\n"


@pytest.mark.spec("FW-684")
def test_what_decides_a_service_needs_no_client_of_its_libraries() -> None:
    # Beside the log, as a replay imports it.
    program = (
        "import sys, aim_cli.log.replaying, aim_serving.service, aim_routing.service, aim_artifacts.service; "
        "print([one for one in ('aiohttp.client', 'prometheus_client', 'opentelemetry.sdk') if one in sys.modules])"
    )
    assert output_of(program) == "[]\n"


@pytest.mark.spec("FW-684")
def test_a_service_is_imported_when_it_is_asked_for() -> None:
    program = (
        "import sys; from aim_cli.services import services; code = services(); "
        f"assert sorted(code) == {sorted(SERVICES)}; "
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
