"""What may talk to what: connections tried between pods on a network that enforces the chart's NetworkPolicies."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import pytest
import pytest_asyncio
import yaml
from support.helm import KUBERNETES
from support.node_pods import (
    PodForm,
    Source,
    Target,
    attempts_of_the_node,
    matched,
    pods_of,
    printed,
    waiting_pod,
)
from support.node_release import UNCHECKED, helm, released
from support.on_node import OnNode

from aim_domain.services import SERVICES
from aim_local.node.platform import CHART, NAMESPACE, RELEASE
from aim_local.node.requirements import program
from controller_runtime import JsonObject

_REMOTE: Final = "203.0.113.10"
"""An address of the internet that is kept for documentation."""
_REMOTE_PORTS: Final = (80, 443, 5000, 9999)
_OWN: Final = {"app.kubernetes.io/name": "aim-engine", "app.kubernetes.io/instance": RELEASE}
_POLICIES: Final = f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies"

API_SERVER: Final = frozenset({"API server", "API server by its Service"})
DNS: Final = frozenset({"DNS by UDP", "DNS by TCP"})
BROKER: Final = frozenset({"broker", "broker by its Service"})
PROBES: Final = frozenset(f"probes of {one}" for one in SERVICES)
METRICS: Final = frozenset(f"metrics of {one}" for one in SERVICES)
UNPROTECTED: Final = (
    API_SERVER | DNS | {"registry", "Hub", "kubelet", "gateway"} | {f"internet {port}" for port in _REMOTE_PORTS}
)
"""What any pod reaches that no policy is for."""
NEEDED: Final = API_SERVER | DNS | BROKER | {"internet 443"}
"""What each service needs. The API server may be anywhere, unless values name its address."""
REGISTRIES: Final = frozenset({"registry", "gateway", "internet 80", "internet 5000"})
"""What lies at the ports of registries besides."""

ALLOWED: Final = {
    **dict.fromkeys(SERVICES, NEEDED),
    "model-sync": NEEDED | REGISTRIES,
    "discovery": NEEDED | REGISTRIES,
    "console": NEEDED,
    "check": NEEDED,
    "test": UNPROTECTED | BROKER | PROBES,
    "broker": DNS,
    "gateway": UNPROTECTED,
    "foreign pod": UNPROTECTED,
    "foreign pod in the platform's namespace": UNPROTECTED,
    "pod of the metrics": UNPROTECTED | METRICS,
    "pod that may use the console": UNPROTECTED | {"console"},
}
"""What passes by where it comes from; every other target is refused."""


@dataclass(frozen=True, slots=True)
class Network:
    """Pods that try, and what they try.

    Attributes:
        sources: by the names of `ALLOWED`.
    """

    node: OnNode
    sources: dict[str, Source]
    targets: dict[str, Target]

    def of(self, source: str) -> dict[str, Target]:
        """The targets of a source: a pod always reaches itself."""
        own = {f"{what} of {source}" for what in ("probes", "metrics")} | {source}
        if source == "broker":
            own |= {name for name in self.targets if name.startswith("broker")}
        return {name: one for name, one in self.targets.items() if name not in own}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def network(node: OnNode) -> AsyncIterator[Network]:
    """The platform with its console, and pods of all kinds beside it."""
    async with AsyncExitStack() as exits:
        await exits.enter_async_context(remote_host(node))
        namespaces = {
            "foreign pod": await exits.enter_async_context(node.namespace("foreign")),
            "pod of the metrics": await exits.enter_async_context(node.namespace("scraping", metrics="enabled")),
            "pod that may use the console": await exits.enter_async_context(node.namespace("viewers")),
            "foreign pod in the platform's namespace": NAMESPACE,
            "test": NAMESPACE,
            "check": NAMESPACE,
        }
        found = Network(node, {}, {})
        console = {"enabled": True, "namespaces": [namespaces["pod that may use the console"]]}
        await exits.enter_async_context(released(node, {**UNCHECKED, "console": console}))
        await exits.enter_async_context(policy_of_the_check(node))
        for name, namespace in namespaces.items():
            labels = {**_OWN, "app.kubernetes.io/component": name} if name in {"test", "check"} else {}
            form = PodForm("trying-" + name.replace(" ", "-").replace("'", ""), labels)
            found.sources[name] = await exits.enter_async_context(waiting_pod(node, namespace, form))
        for name in (*SERVICES, "console"):
            [pod] = await pods_of(node, name)
            found.sources[name] = Source(node, NAMESPACE, pod["metadata"]["name"])
        found.sources["broker"] = Source(node, NAMESPACE, "aim-engine-nats-0", python=False)
        [gateway] = await node.objects("pods", "-n", "traefik", "-l", "app=traefik")
        found.sources["gateway"] = Source(node, "traefik", gateway["metadata"]["name"], python=False)
        found.targets.update(await all_targets(node))
        yield found


@asynccontextmanager
async def remote_host(node: OnNode) -> AsyncIterator[None]:
    """A host beyond the cluster that listens at several ports: an address of the bridge, which ends with the node."""
    bridge = ("dev", node.platform.node.settings.bridge)
    await printed(program("ip"), "addr", "replace", f"{_REMOTE}/32", *bridge)
    try:
        async with AsyncExitStack() as exits:
            for port in _REMOTE_PORTS:
                server = await asyncio.start_server(lambda _, writer: writer.close(), _REMOTE, port)
                exits.callback(server.close)
            yield
    finally:
        await printed(program("ip"), "addr", "del", f"{_REMOTE}/32", *bridge)


@asynccontextmanager
async def policy_of_the_check(node: OnNode) -> AsyncIterator[None]:
    """The NetworkPolicy that the check has while it runs."""
    [policy] = await rendered(node, "check.yaml")
    policy["metadata"] |= {"name": "suite-check", "annotations": {}}
    await node.kubectl("apply", "-n", NAMESPACE, "-f", "-", given=policy)
    try:
        yield
    finally:
        await node.kubectl("delete", "-n", NAMESPACE, "networkpolicy", "suite-check")


async def rendered(node: OnNode, template: str, *values: str) -> list[JsonObject]:
    """The NetworkPolicies of a template of the chart."""
    chosen = (*KUBERNETES, "--show-only", f"templates/{template}", *values)
    objects = yaml.safe_load_all(await helm(node, "template", RELEASE, str(CHART), *chosen))
    return [one for one in objects if one["kind"] == "NetworkPolicy"]


async def all_targets(node: OnNode) -> dict[str, Target]:
    """Everything that listens on the node, and the host beyond it."""
    settings = node.platform.node.settings
    address = str(settings.address)
    registry_port, hub_port = (int(one.rpartition(":")[2]) for one in (settings.registry, settings.hub))
    [broker] = await pods_of(node, "nats")
    found = {
        "API server": Target(address, 6443),
        "API server by its Service": Target(str(settings.kubernetes_service), 443),
        "DNS by UDP": Target(str(settings.dns), 53, "udp"),
        "DNS by TCP": Target(str(settings.dns), 53),
        "registry": Target(address, registry_port),
        "Hub": Target(address, hub_port),
        "kubelet": Target(address, 10250),
        "gateway": Target(await service_address(node, "traefik", "traefik"), 80),
        "broker": Target(broker["status"]["podIP"], 4222),
        "broker by its Service": Target(await service_address(node, NAMESPACE, "aim-engine-nats"), 4222),
        "broker's monitor": Target(broker["status"]["podIP"], 8222),
        "console": Target(await service_address(node, NAMESPACE, "aim-engine-console"), 443),
    }
    for port in _REMOTE_PORTS:
        found[f"internet {port}"] = Target(_REMOTE, port)
    for name in SERVICES:
        [pod] = await pods_of(node, name)
        found[f"probes of {name}"] = Target(pod["status"]["podIP"], 8081)
        found[f"metrics of {name}"] = Target(await service_address(node, NAMESPACE, f"aim-engine-{name}-metrics"), 8443)
    return found


async def service_address(node: OnNode, namespace: str, name: str) -> str:
    return await node.kubectl("-n", namespace, "get", "service", name, "-o", "jsonpath={.spec.clusterIP}")


async def test_the_node_reaches_all_of_it(network: Network) -> None:
    errors = await attempts_of_the_node(network.targets)
    assert not {name: error for name, error in errors.items() if error}, "kubelets probe from here"


@pytest.mark.spec("FW-701")
@pytest.mark.parametrize("source", ALLOWED)
async def test_what_the_platform_needs_passes_and_all_else_is_refused(network: Network, source: str) -> None:
    targets = network.of(source)
    await matched(network.sources[source], targets, ALLOWED[source] & targets.keys())


@pytest.mark.spec("FW-701")
async def test_the_address_of_the_api_server_closes_the_way_to_all_others(network: Network) -> None:
    node = network.node
    address = f"networkPolicy.apiServerCidrs={{{node.platform.node.settings.address}/32}}"
    try:
        await put(node, await rendered(node, "networkpolicies.yaml", "--set", address))
        await matched(network.sources["serving"], network.of("serving"), NEEDED - {"internet 443"})
        await matched(network.sources["discovery"], network.of("discovery"), NEEDED | REGISTRIES)
    finally:
        await put(node, await rendered(node, "networkpolicies.yaml"))
    await matched(network.sources["serving"], network.of("serving"), NEEDED)


async def put(node: OnNode, policies: list[JsonObject]) -> None:
    """Give the release's NetworkPolicies other rules."""
    for one in policies:
        reply = await node.api.merge(f"{_POLICIES}/{one['metadata']['name']}", {"spec": one["spec"]})
        assert reply.status == 200, reply.body


@pytest.mark.spec("FW-701")
async def test_without_policies_any_pod_reaches_all_of_it(network: Network) -> None:
    policies = (await network.node.api.get(_POLICIES)).body["items"]
    try:
        for one in policies:
            await network.node.api.delete(f"{_POLICIES}/{one['metadata']['name']}")
        for name in ("foreign pod", "serving"):
            targets = network.of(name)
            await matched(network.sources[name], targets, frozenset(targets))
    finally:
        for one in policies:
            kept = {key: one["metadata"][key] for key in ("name", "labels", "annotations") if key in one["metadata"]}
            body = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": kept}
            await network.node.api.created(_POLICIES, {**body, "spec": one["spec"]})
    await matched(network.sources["foreign pod"], network.of("foreign pod"), UNPROTECTED)
