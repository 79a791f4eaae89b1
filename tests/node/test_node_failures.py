"""What goes wrong on a node within moments: what status and `aim why` report, and that the service comes back.

`make chaos CLUSTER=node` runs this and what takes longer; see docs/development/chaos.md.
"""

import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio
from support.node_failures import (
    PODS_READY,
    Outcomes,
    Served,
    cluster_objects,
    cordoned,
    engine_of,
    folders,
    grow_disk,
    has_ended,
    killed,
    no_remains,
    node_becomes,
    overfeed,
    scaled_to_zero,
    served,
    short,
    small_disk,
    static_volume,
    storage_class,
    waits_for,
)
from support.node_images import PASSWORD, USER, copy_of, forget_image, private_registry
from support.on_node import IMAGE, SMALL, OnNode

from aim_local.node.platform import NAMESPACE
from controller_runtime import JsonObject


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def outcomes(request: pytest.FixtureRequest) -> AsyncIterator[Outcomes]:
    """What each failure came to, printed after the last one."""
    found = Outcomes()
    yield found
    found.print(request.config)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def chat(node: OnNode, outcomes: Outcomes) -> AsyncIterator[Served]:
    """A service that runs, and has to run again after each failure."""
    async with (
        no_remains(node),
        node.namespace("failures") as namespace,
        served(node, outcomes, namespace) as found,
    ):
        await node.running(found.path)
        await found.answers()
        yield found


async def test_a_kubelet_that_was_killed_finds_its_pods_again(chat: Served) -> None:
    before = await chat.pod()
    async with killed(chat.node, "kubelet"):
        await chat.answers(5)
        why = await chat.why()
        assert (why.code, why.status) == (0, "Running"), "a kubelet may be away for a moment"
    since = time.monotonic()
    await node_becomes(chat.node, "True", 30)
    await chat.recovered("kubelet killed", why.status, why, since)
    after = await chat.pod()
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert engine_of(after)["restartCount"] == engine_of(before)["restartCount"]


async def test_containers_outlive_their_runtime(chat: Served) -> None:
    before = await chat.pod()
    async with killed(chat.node, "containerd"):
        await chat.answers(5)
        why = await chat.why()
        assert (why.code, why.status) == (0, "Running")
    since = time.monotonic()
    await chat.answers(5)
    assert engine_of(await chat.pod()) == engine_of(before)
    await chat.node.kubectl("-n", chat.namespace, "delete", "pod", before["metadata"]["name"])
    await chat.recovered("containerd killed", why.status, why, since)


async def test_an_api_server_that_was_killed_is_found_again(chat: Served) -> None:
    before = await chat.get()
    async with killed(chat.node, "kube-apiserver"):
        await chat.answers(5)
    since = time.monotonic()
    why = await chat.why()
    await chat.recovered("kube-apiserver killed", why.status, why, since)
    # Whatever leads then decides about new objects.
    async with served(chat.node, chat.outcomes, chat.namespace, "next") as other:
        await chat.node.running(other.path)
        await other.answers()
    assert (await chat.get())["status"]["conditions"] == before["status"]["conditions"], "nothing changed meanwhile"


def has_restarted(times: int) -> Callable[[JsonObject], bool]:
    return lambda pod: bool(engine_of(pod)["restartCount"] >= times)


async def test_an_engine_that_runs_out_of_memory(chat: Served) -> None:
    pod = await chat.pod()
    # The kubelet waits 10 s before the second start and 20 s before the third.
    for restarts in (1, 2):
        await overfeed(pod)
        ended = await chat.until_pod(has_restarted(restarts))
        assert engine_of(ended)["lastState"]["terminated"]["reason"] == "OOMKilled"
    await overfeed(pod)
    since = time.monotonic()
    await chat.until_pod(lambda one: waits_for(one) == "CrashLoopBackOff", 20)
    reported = await chat.reports(PODS_READY, "CrashLoopBackOff", seconds=10)
    assert "OOMKilled" in reported["message"]
    why = await chat.explains(lambda found: "OOMKilled" in found.way, 15)
    more = {**SMALL, "limits": {"memory": "320Mi"}}
    await chat.type(why, "kubectl edit aimservice", edit={"spec": {"resources": more}})
    await chat.recovered("engine out of memory", short(reported), why, since)


async def test_a_pod_that_is_evicted_is_replaced(chat: Served) -> None:
    limited = {**SMALL, "limits": {"memory": "256Mi", "ephemeral-storage": "4Mi"}}
    async with served(chat.node, chat.outcomes, chat.namespace, "greedy", resources=limited) as greedy:
        await chat.node.running(greedy.path)
        pod = await greedy.pod()
        name = pod["metadata"]["name"]
        written = "open('/tmp/large', 'wb').write(bytes(16 << 20))"
        await chat.node.kubectl("-n", chat.namespace, "exec", name, "--", "python", "-c", written)
        evicted = await greedy.until_pod(has_ended, 90)
        since = time.monotonic()
        assert evicted["metadata"]["name"] == name
        said = await chat.node.objects(
            "events", "-n", chat.namespace, "--field-selector", f"involvedObject.name={name}"
        )
        assert "Evicted" in {one["reason"] for one in said}
        why = await greedy.why()
        await greedy.recovered("pod evicted", why.status, why, since)


async def test_pods_of_a_drained_node_wait_until_it_is_uncordoned(chat: Served) -> None:
    name = chat.node.platform.node.settings.name
    # Uncordoned again at the end even where the remedy does not.
    async with cordoned(chat.node):
        selector = f"--pod-selector=serving.kserve.io/inferenceservice={chat.workload}"
        await chat.node.kubectl("drain", name, selector, "--delete-emptydir-data", "--timeout=60s")
        reported = await chat.reports(PODS_READY, "FailedScheduling")
        assert "unschedulable" in reported["message"]
        why = await chat.explains(lambda found: found.reason == "GPUNotSchedulable")
        assert "cordoned" in why.cause
        since = time.monotonic()
        await chat.type(why, "kubectl uncordon", values={"NODE": name})
        await chat.recovered("node drained", short(reported), why, since)


async def test_what_is_pulled_while_the_registry_is_away(chat: Served) -> None:
    repository = IMAGE.rpartition(":")[0]
    async with killed(chat.node, "registry"):
        await forget_image(chat.node, f"docker.io/{repository}")
        await chat.node.kubectl("-n", chat.namespace, "delete", "pod", (await chat.pod())["metadata"]["name"])
        reported = await chat.reports(PODS_READY, "ImagePullBackOff")
        assert "connection refused" in reported["message"]
        why = await chat.explains(lambda found: "connection refused" in found.way)
    since = time.monotonic()
    await chat.type(why, "kubectl delete pod")
    await chat.recovered("registry gone", short(reported), why, since)


async def test_services_go_on_without_dns(chat: Served) -> None:
    routing = ("-n", NAMESPACE, "-l", "app.kubernetes.io/component=routing")
    async with scaled_to_zero(chat.node, "kube-system", "coredns"):
        await chat.answers(5)
        why = await chat.why()
        assert (why.code, why.status) == (0, "Running"), "connections that stand need no names"
        await chat.node.kubectl("delete", "pod", *routing)
        since = time.monotonic()
    await chat.node.kubectl("wait", "pod", *routing, "--for=condition=Ready", "--timeout=90s")
    await chat.recovered("DNS away", why.status, why, since)


async def test_an_image_that_is_missing(node: OnNode, outcomes: Outcomes) -> None:
    async with (
        no_remains(node),
        node.namespace("missing") as namespace,
        copy_of(node, IMAGE) as copy,
        served(node, outcomes, namespace, model={"image": copy.image}) as chat,
    ):
        why = await chat.explains(lambda found: found.reason == "ImageNotFound")
        assert copy.image in why.cause
        since = time.monotonic()
        await copy.push()
        await chat.type(why, "kubectl delete aimmodel")
        await chat.recovered("image missing", why.status, why, since, 180)
        await copy.delete()
        await node.kubectl("-n", namespace, "delete", "pod", (await chat.pod())["metadata"]["name"])
        reported = await chat.reports(PODS_READY, "ImageNotFound")
        why = await chat.explains(lambda found: "not found" in found.way)
        since = time.monotonic()
        await copy.push()
        await chat.type(why, "kubectl delete pod")
        await chat.recovered("image deleted", short(reported), why, since)


async def test_an_image_that_needs_a_secret(node: OnNode, outcomes: Outcomes, tmp_path: Path) -> None:
    async with no_remains(node), node.namespace("secret") as namespace, private_registry(node, tmp_path) as registry:
        image, secrets = f"{registry}/{IMAGE}", [{"name": "login"}]
        async with served(node, outcomes, namespace, model={"image": image}, imagePullSecrets=secrets) as chat:
            why = await chat.explains(lambda found: "login" in found.cause)
            since = time.monotonic()
            values = {"REGISTRY": registry, "USER": USER, "=PASSWORD": f"={PASSWORD}"}
            await chat.type(why, "kubectl create secret docker-registry login", values=values)
            await chat.recovered("image needs a Secret", why.status, why, since, 180)


async def test_a_volume_that_is_full(node: OnNode, outcomes: Outcomes) -> None:
    name = f"small-{uuid.uuid4().hex[:6]}"
    with small_disk(node, "512k") as disk:
        # One for each attempt: a volume that was used is not given to another claim.
        volumes = [static_volume(f"{name}-{number}", name, one) for number, one in enumerate(folders(disk, 4))]
        async with (
            no_remains(node),
            cluster_objects(node, storage_class(name, "kubernetes.io/no-provisioner"), *volumes),
            node.namespace("full") as namespace,
            served(node, outcomes, namespace, storage={"defaultStorageClassName": name}) as chat,
        ):
            reported = await chat.reports("CacheReady", "CacheFailed", seconds=120)
            why = await chat.explains(lambda found: found.reason == "StorageFull")
            since = time.monotonic()
            grow_disk(disk, "64m")
            await chat.type(why, "kubectl delete aimartifact")
            await chat.recovered("volume full", short(reported), why, since, 120)


async def test_a_claim_of_a_class_that_does_not_exist(node: OnNode, outcomes: Outcomes) -> None:
    name = f"absent-{uuid.uuid4().hex[:6]}"
    async with (
        no_remains(node),
        node.namespace("class") as namespace,
        served(node, outcomes, namespace, storage={"defaultStorageClassName": name}) as chat,
    ):
        why = await chat.explains(lambda found: found.kind == "Event" and name in found.cause)
        since = time.monotonic()
        async with cluster_objects(node, storage_class(name, "rancher.io/local-path")):
            await chat.type(why, "kubectl delete aimtemplatecache")
            await chat.recovered("claim: class missing", why.status, why, since, 120)


async def test_a_claim_that_fits_no_volume(node: OnNode, outcomes: Outcomes) -> None:
    name = f"static-{uuid.uuid4().hex[:6]}"
    with small_disk(node, "16m") as disk:
        unfit = static_volume(f"{name}-once", name, disk, "ReadWriteOnce")
        async with (
            no_remains(node),
            # Its end waits for the claim, which goes with the namespace.
            AsyncExitStack() as later,
            cluster_objects(node, storage_class(name, "kubernetes.io/no-provisioner"), unfit),
            node.namespace("claim") as namespace,
            served(node, outcomes, namespace, storage={"defaultStorageClassName": name}) as chat,
        ):
            why = await chat.explains(lambda found: found.kind in {"Event", "PersistentVolumeClaim"})
            since = time.monotonic()
            await later.enter_async_context(cluster_objects(node, static_volume(f"{name}-many", name, disk)))
            # The scheduler may miss the new volume; it tries every pod again after five minutes.
            await chat.recovered("claim: no volume fits", why.status, why, since, 400)
