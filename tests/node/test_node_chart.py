"""The chart, installed by helm: hooks and tests, what its pods may do, the console, the way to another release."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
import pytest
from support.autoscaled_node import aim
from support.node_pods import PYTHON, is_ready, main_process, pods_of
from support.node_release import UNCHECKED, helm, install, refused, released, restore, revision, rolled_out
from support.on_node import OnNode

from aim_domain.services import SERVICES
from aim_local.node import NodeError
from aim_local.node.platform import NAMESPACE, RELEASE
from aim_packaging.images.commands import LAYOUT, REPOSITORY
from aim_packaging.images.layout import Layout
from aim_packaging.release import Release, images_of, values_of
from controller_runtime import __version__

_HOOKED: Final = (
    f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/aim-engine-check",
    f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/aim-engine-check",
    f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies/aim-engine-check",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/aim-engine-check",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/aim-engine-check",
)
_TESTED: Final = f"/api/v1/namespaces/{NAMESPACE}/pods/aim-engine-test"


async def test_the_check_completes_after_an_upgrade_and_leaves_nothing(node: OnNode) -> None:
    before, known = await revision(node), await completed_checks(node)
    await install(node)
    assert await revision(node) == before + 1
    assert len(await completed_checks(node) - known) == 1
    for path in _HOOKED:
        await node.api.until_gone(path)


async def completed_checks(node: OnNode) -> set[str]:
    """The Jobs of the check that have completed."""
    selector = "involvedObject.kind=Job,involvedObject.name=aim-engine-check,reason=Completed"
    events = await node.objects("events", "-n", NAMESPACE, "--field-selector", selector)
    return {one["involvedObject"]["uid"] for one in events}


async def test_helm_test_succeeds_and_leaves_nothing(node: OnNode) -> None:
    said = await helm(node, "test", RELEASE)
    assert "Phase:          Succeeded" in said
    await node.api.until_gone(_TESTED)
    services = await node.objects("services", "-n", NAMESPACE)
    assert not [name for one in services if (name := one["metadata"]["name"]).endswith("-probes")]


async def test_a_service_that_is_missing_fails_the_check_and_the_test_which_name_it(node: OnNode) -> None:
    variable = {"name": "SUITE_LEFT", "value": "by a release that failed"}
    values = {"services": {"routing": {"replicas": 0}, "serving": {"env": [variable]}}, "check": {"seconds": 5}}
    try:
        with pytest.raises(NodeError, match="aim-engine-check"):
            await install(node, values)
        log = await node.kubectl("-n", NAMESPACE, "logs", "job/aim-engine-check")
        assert re.search(r"^BAD +leaders .*routing", log, re.MULTILINE), "a failed check stays to be read"
        await refused(node, "test", RELEASE)
        log = await node.kubectl("-n", NAMESPACE, "logs", "aim-engine-test")
        assert log.splitlines()[-1].startswith("routing not ready: "), log
    finally:
        await restore(node)
    await helm(node, "test", RELEASE)
    [pod] = await pods_of(node, "serving")
    assert variable["name"] not in {one["name"] for one in pod["spec"]["containers"][0]["env"]}


async def test_every_pod_becomes_ready_and_passes_its_probes_without_a_restart(node: OnNode) -> None:
    selector = "app.kubernetes.io/name=aim-engine"
    await node.kubectl("-n", NAMESPACE, "delete", "pods", "-l", selector)
    await rolled_out(node, *SERVICES)
    await node.kubectl("-n", NAMESPACE, "rollout", "status", "statefulset/aim-engine-nats", "--timeout=120s")
    pods = await node.objects("pods", "-n", NAMESPACE, "-l", selector)
    assert {one["metadata"]["labels"]["app.kubernetes.io/component"] for one in pods} == {*SERVICES, "nats"}
    for pod in pods:
        name = pod["metadata"]["name"]
        assert is_ready(pod), name
        assert [one["restartCount"] for one in pod["status"]["containerStatuses"]] == [0], name
        uid = f"involvedObject.uid={pod['metadata']['uid']},reason=Unhealthy"
        events = await node.objects("events", "-n", NAMESPACE, "--field-selector", uid)
        assert not [one["message"] for one in events if one["message"].startswith("Liveness")]


async def test_the_platform_runs_where_only_restricted_pods_may(node: OnNode) -> None:
    namespace = (await node.api.get(f"/api/v1/namespaces/{NAMESPACE}")).body
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "unrestricted"},
        "spec": {"containers": [{"name": "one", "image": PYTHON}]},
    }
    reply = await node.api.post(f"/api/v1/namespaces/{NAMESPACE}/pods", pod)
    assert (reply.status, 'violates PodSecurity "restricted' in reply.message) == (403, True)


@pytest.mark.parametrize("component", [*SERVICES, "nats"])
async def test_a_container_has_no_privilege_and_cannot_write_its_root(node: OnNode, component: str) -> None:
    [pod] = await pods_of(node, component)
    process = Path("/proc", str(await main_process(node, NAMESPACE, pod["metadata"]["name"])))
    lines = process.joinpath("status").read_text(encoding="ascii").splitlines()
    status = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    assert status["Uid"] == status["Gid"] == ["65532"] * 4
    assert status["Groups"] == ["65532"]
    capabilities = {name: value for name, value in status.items() if name.startswith("Cap")}
    assert capabilities.keys() >= {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}
    assert {int(value, 16) for [value] in capabilities.values()} == {0}
    assert (status["NoNewPrivs"], status["Seccomp"]) == (["1"], ["2"]), "mode 2 is a filter"
    mounts = [line.split() for line in process.joinpath("mountinfo").read_text(encoding="utf-8").splitlines()]
    [root] = [words for words in mounts if words[4] == "/"]
    assert "ro" in root[5].split(",")


async def test_doctor_finds_nothing_bad(node: OnNode) -> None:
    said = await aim(node, "doctor", "--wait", "60", "-o", "json")
    findings = json.loads(said.out)
    assert (said.code, [one for one in findings if one["mark"] == "bad"]) == (0, [])
    about = {one["about"] for one in findings}
    assert {"Kubernetes", "definitions", "permissions", "streams", "freshness", "clocks", "leaders"} <= about
    assert (await aim(node, "doctor", "--pre")).code == 0


@pytest.mark.spec("FW-887")
async def test_a_release_installs_from_its_folder(node: OnNode, tmp_path: Path) -> None:
    """The packaged chart, and the images by their digests."""
    images = images_of(Layout(LAYOUT.absolute()), REPOSITORY, __version__)
    values = {**values_of(images, REPOSITORY), **UNCHECKED}
    package = tmp_path / Release(__version__, Path.cwd(), tmp_path).chart()
    try:
        await asyncio.to_thread(lambda: node.platform.install(values, chart=package))
        await rolled_out(node, *SERVICES)
        for name in SERVICES:
            [deployment] = await node.objects(
                "deployments", "-n", NAMESPACE, "-l", f"app.kubernetes.io/component={name}"
            )
            [container] = deployment["spec"]["template"]["spec"]["containers"]
            assert container["image"] == f"{REPOSITORY}-{name}@{images[name].top.digest}"
        async with node.namespace("packaged") as namespace:
            await node.service(namespace, "chat")
    finally:
        await restore(node)


async def test_the_console_comes_with_an_upgrade_and_answers_by_its_service(node: OnNode) -> None:
    service = f"/api/v1/namespaces/{NAMESPACE}/services/aim-engine-console"
    async with node.namespace("viewed") as namespace, released(node, {**UNCHECKED, "console": {"enabled": True}}):
        await node.service(namespace, "chat")
        token = await viewer_token(node, namespace)
        address = (await node.api.get(service)).body["spec"]["clusterIP"]
        page = f"/objects/aimservices/{namespace}/chat"
        async with console(address) as browser:
            async with browser.get(page, allow_redirects=False) as answer:
                assert answer.status == 401
            async with asyncio.timeout(60):
                while True:
                    async with browser.get(page, headers={"authorization": f"Bearer {token}"}) as answer:
                        text = await answer.text()
                    if answer.status == 200:
                        break
                    await asyncio.sleep(0.2)
        assert f"AIMService {namespace}/chat" in text
    await node.api.until_gone(service)


@asynccontextmanager
async def console(address: str) -> AsyncIterator[aiohttp.ClientSession]:
    """A browser; the pod has signed its own certificate."""
    headers = {"host": f"aim-engine-console.{NAMESPACE}.svc"}
    connector = aiohttp.TCPConnector(ssl=False)
    async with aiohttp.ClientSession(f"https://{address}", headers=headers, connector=connector) as session:
        yield session


async def viewer_token(node: OnNode, namespace: str) -> str:
    """Of a ServiceAccount that may look at the services of its namespace, and no more."""
    name = ("-n", namespace, "viewer")
    await node.kubectl("create", "serviceaccount", *name)
    role = "--clusterrole=aim-engine-aimservice-viewer-role"
    await node.kubectl("create", "rolebinding", *name, role, f"--serviceaccount={namespace}:viewer")
    return (await node.kubectl("create", "token", *name)).strip()
