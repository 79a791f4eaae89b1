"""The controller in the framework's README, as it stands there, between a broker and an API server."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest
from support.controlplane import RawApi, Reply
from support.services import Platform

README: Final = Path(__file__).parents[3] / "shared/controller-runtime/README.md"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GREETINGS: Final = "/apis/example.com/v1/namespaces/default/greetings"
CARD: Final = "/api/v1/namespaces/default/configmaps/first"
GREETING: Final = {
    "apiVersion": "example.com/v1",
    "kind": "Greeting",
    "metadata": {"name": "first", "namespace": "default"},
    "spec": {"who": "platform engineers"},
}
VERSION: Final = {
    "name": "v1",
    "served": True,
    "storage": True,
    "subresources": {"status": {}},
    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
}
DEFINITION: Final = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "greetings.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Greeting", "plural": "greetings"},
        "versions": [VERSION],
    },
}


def examples() -> tuple[str, str]:
    """The program in the README, and its tests."""
    program, tests = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    return program, tests


def example() -> str:
    """The program in the README."""
    return examples()[0]


@pytest.mark.spec("FW-520")
def test_the_example_is_short_and_uses_public_names_only() -> None:
    program = example()
    assert len(program.splitlines()) < 60
    nodes = list(ast.walk(ast.parse(program)))
    modules = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    modules |= {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    assert modules == {"datetime", "controller_runtime", "controller_runtime.kinds"}


@pytest.mark.spec("FW-520")
async def test_the_example_writes_its_child_and_puts_it_back(
    stage: Platform, api: RawApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "greeter.py").write_text(example(), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    await api.created(DEFINITIONS, DEFINITION)
    service = stage.service(module="greeter", prefix="CONTROLLER_")
    await service.start()
    await service.ready()
    await api.created(GREETINGS, GREETING)
    first = (await api.until(CARD, lambda reply: reply.status == 200)).body
    assert first["data"] == {"text": "Hello, platform engineers!"}
    reported = (await api.until(f"{GREETINGS}/first", _is_ready)).body
    assert {one["type"] for one in reported["status"]["conditions"]} >= {"CardReady", "Ready"}

    await api.delete(CARD)
    second = (await api.until(CARD, lambda reply: reply.status == 200 and _uid(reply.body) != _uid(first))).body
    assert second["metadata"]["ownerReferences"][0]["name"] == "first"
    assert await service.stop() == 0
    assert service.tracebacks == []


@pytest.mark.spec("FW-520")
def test_the_tests_of_the_example_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, tests = examples()
    (tmp_path / "greeter.py").write_text(program, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    namespace: dict[str, object] = {}
    exec(compile(tests, "README", "exec"), namespace)
    found = [member for name, member in namespace.items() if name.startswith("test_") and callable(member)]
    assert len(found) == 2
    for test in found:
        test()


def _uid(obj: dict[str, dict[str, str]]) -> str:
    return obj["metadata"]["uid"]


def _is_ready(reply: Reply) -> bool:
    conditions = (reply.body.get("status") or {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
