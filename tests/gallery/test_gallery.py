"""Each failure of the gallery: `aim why` names its cause, and the service runs after what it says to do was typed."""

import asyncio
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
import yaml
from support.said import Said, why
from support.stack import CLUSTER, Platform
from support.terminal import Terminal, command_in

from aim_local.stack import ClusterKind
from controller_runtime import JsonObject, dumps, loads
from gallery.failures import FAILURES, GOOD, UNDISCOVERED, Failure, gateway, of_image, routed

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAMES = [name for name, one in FAILURES.items() if not (one.real if CLUSTER is ClusterKind.EMBEDDED else one.simulated)]


def service(spec: JsonObject, annotations: Mapping[str, str] = MappingProxyType({})) -> str:
    body = {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMService",
        "metadata": {"name": "chat", "annotations": dict(annotations)},
        "spec": spec,
    }
    return yaml.safe_dump(body)


def advice(said: Said) -> str:
    return next(line for line in said.lines if line.startswith("do "))


def cause_in(said: Said) -> str:
    return next((line for line in said.lines if line.startswith("because ")), "")


async def explained(platform: Platform, namespace: str, failure: Failure) -> Said:
    """What `aim why` says once it names the cause, or what it says last."""
    kind, reason = failure.cause
    ends = re.compile(rf"^because {kind} \S+: (?:\S+=\S+ )?{re.escape(reason)}(?::|$)")
    said = await why(platform, "aimservice", f"{namespace}/chat")
    for _ in range(30):
        if ends.match(cause_in(said)):
            break
        await asyncio.sleep(1)
        said = await why(platform, "aimservice", f"{namespace}/chat")
    assert ends.match(cause_in(said)), said.lines
    return said


async def nothing_is_in_the_way(platform: Platform, namespace: str) -> None:
    """Wait for it: an edit of a service that runs has it roll out once more."""
    for _ in range(30):
        said = await why(platform, "aimservice", f"{namespace}/chat")
        if said.lines[1] == "no problem found":
            return
        await asyncio.sleep(1)
    pytest.fail("\n".join(said.lines))


async def settle_neighbour(platform: Platform, shell: Terminal, namespace: str, failure: Failure) -> None:
    """Have the service of the namespace beside it running."""
    if failure.neighbour is None:
        return
    beside = f"{namespace}-b"
    await platform.namespace(beside)
    await shell.apply(beside, service(failure.neighbour).replace("{ns}", namespace))
    await platform.running(f"/apis/aim.eai.amd.com/v1alpha1/namespaces/{beside}/aimservices/chat", 60)


def ready_message(service: JsonObject) -> str:
    conditions = (service.get("status") or {}).get("conditions") or ()
    return next((str(one["message"]) for one in conditions if one["type"] == "Ready"), "")


@pytest.mark.spec("FW-551", "FW-552", "FW-076", "FW-080")
@pytest.mark.parametrize("name", NAMES)
async def test_the_cause_is_named_and_the_remedy_works(platform: Platform, tmp_path: Path, name: str) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on this machine")
    failure, namespace = FAILURES[name], f"gallery-{name}"
    shell = Terminal(platform.stack.kubeconfig, tmp_path)
    fail = {"local.aim/fail": failure.environment} if failure.environment else {}
    await platform.namespace(namespace, **fail, **failure.annotations)
    await shell.apply(namespace, failure.before)
    await settle_neighbour(platform, shell, namespace, failure)
    await shell.apply(namespace, service(failure.spec, failure.own))
    path = f"/apis/aim.eai.amd.com/v1alpha1/namespaces/{namespace}/aimservices/chat"

    if failure.breaks:
        await platform.running(path, 60)
        await shell.apply(namespace, failure.breaks)
    said = await explained(platform, namespace, failure)
    quoted = failure.ready.replace("{ns}", namespace)
    await platform.until(path, lambda obj: quoted in ready_message(obj), 20)

    command = command_in(advice(said), failure.typed.replace("{ns}", namespace))
    for placeholder, value in failure.values.items():
        command = command.replace(placeholder, value)
    if failure.environment:
        patch = {"metadata": {"annotations": {"local.aim/fail": None}}}
        await platform.api.merge(f"/api/v1/namespaces/{namespace}", patch)
    await shell.apply(namespace, failure.heals)
    await shell.type(command, edit=failure.edit and loads(dumps(failure.edit).replace(b"{ns}", namespace.encode())))
    await shell.apply(namespace, failure.then, "" if failure.after is None else service(failure.after))
    await platform.running(path, 60)
    await nothing_is_in_the_way(platform, namespace)


@pytest.mark.spec("FW-551")
@pytest.mark.parametrize(
    ("stopped", "spec", "cause"),
    [
        ("serving", GOOD, ("AIMService", "NoStatus")),
        ("discovery", of_image(UNDISCOVERED), ("AIMModel", "NoStatus")),
        ("artifacts", GOOD, ("AIMTemplateCache", "NoStatus")),
        ("routing", routed(), ("AIMService", "Progressing")),
    ],
)
async def test_a_stopped_service_is_found_by_what_it_left_undone(
    platform: Platform, tmp_path: Path, stopped: str, spec: JsonObject, cause: tuple[str, str]
) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on this machine")
    namespace, shell = f"stopped-{stopped}", Terminal(platform.stack.kubeconfig, tmp_path)
    await platform.namespace(namespace)
    await shell.apply(namespace, gateway())
    await platform.stack[stopped].stop()
    try:
        await shell.apply(namespace, service(spec))
        said = await explained(platform, namespace, Failure("", cause, "", ""))
        assert "kubectl get pods -A -l app.kubernetes.io/part-of=aim-engine" in advice(said)
    finally:
        await platform.stack[stopped].start()
    path = f"/apis/aim.eai.amd.com/v1alpha1/namespaces/{namespace}/aimservices/chat"
    await platform.until(path, lambda obj: bool(ready_message(obj)), 60)


@pytest.mark.spec("FW-613", "FW-614", "FW-876", "FW-882")
@pytest.mark.parametrize("name", [name for name, one in FAILURES.items() if one.plan])
async def test_what_can_be_foreseen_is_planned(platform: Platform, tmp_path: Path, name: str) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on this machine")
    failure, namespace = FAILURES[name], f"plan-{name}"
    shell = Terminal(platform.stack.kubeconfig, tmp_path)
    await platform.namespace(namespace, **failure.annotations)
    await shell.apply(namespace, failure.before)
    await settle_neighbour(platform, shell, namespace, failure)
    manifest = service(failure.spec, failure.own).replace("{ns}", namespace)
    where = f"-n {namespace} --nats-url {platform.stack.nats_url}"
    # The services of this platform find their registry in the same way.
    registry = f"AIM_DOCKER_REGISTRY_URL={platform.stack.registry_url} AIM_REGISTRY_ALLOWED_NETWORKS=127.0.0.0/8"
    command = f"{registry} aim plan --registries" if failure.registries else "aim plan"
    code, planned = await shell.ends(f"{command} -f - {where}", manifest)
    assert failure.plan.replace("{ns}", namespace) in planned
    assert code == 1, planned
