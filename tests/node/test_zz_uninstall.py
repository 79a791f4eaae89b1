"""The release is uninstalled and comes back; the name has it run behind all others.

The tests follow each other: what stays, what goes on without the platform, what a new installation does.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

import pytest_asyncio
from support.node_release import helm, install
from support.on_node import OWN, OnNode

from aim_domain.services import SERVICES
from aim_local.node.platform import NAMESPACE, RELEASE
from controller_runtime import JsonObject

_RELEASED: Final = f"app.kubernetes.io/instance={RELEASE}"
_CLAIM: Final = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims/data-aim-engine-nats-0"
_NAMESPACED: Final = (
    "deployments", "statefulsets", "pods", "services", "configmaps", "serviceaccounts", "networkpolicies",
    "poddisruptionbudgets", "roles", "rolebindings", "jobs",
)  # fmt: skip
_CLUSTER: Final = ("clusterroles", "clusterrolebindings")
_KINDS: Final = (
    "aimservices", "aimmodels", "aimclustermodels", "aimservicetemplates", "aimclusterservicetemplates",
    "aimtemplatecaches", "aimartifacts", "aimclustermodelsources", "aimclusterruntimeconfigs", "inferenceservices",
    "httproutes", "persistentvolumeclaims",
)  # fmt: skip
_ACCOUNTS: Final = frozenset(f"aim-{one}" for one in SERVICES)
_WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_QUIET_SECONDS: Final = 15


@dataclass(frozen=True, slots=True)
class Without:
    """A node whose platform is gone.

    Attributes:
        namespace: of three AIMServices: ``chat`` runs, ``leaving`` was deleted and ``new`` was made meanwhile.
        route: of ``chat``.
        objects: those that the platform reads or makes, before.
        claim: of the broker, before it went.
    """

    node: OnNode
    namespace: str
    route: str
    objects: dict[str, JsonObject]
    claim: JsonObject

    @property
    def services(self) -> str:
        """Path of the namespace's AIMServices."""
        return f"{OWN}/namespaces/{self.namespace}/aimservices"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def without(node: OnNode) -> AsyncIterator[Without]:
    """The release is uninstalled; it is back afterwards."""
    async with node.namespace("kept") as namespace:
        # The first one makes the cache, which its deletion may have to take along; the second one uses it (SV-233).
        first = await node.running(await node.service(namespace, "leaving"))
        service = await node.running(await node.service(namespace, "chat"))
        assert (len(first["metadata"].get("finalizers", ())), service["metadata"].get("finalizers")) == (1, None)
        await until_quiet(node)
        claim = (await node.api.get(_CLAIM)).body
        found = Without(node, namespace, service["status"]["routing"]["path"], await objects(node), claim)
        try:
            await helm(node, "uninstall", RELEASE, "--wait")
            await node.api.delete(f"{found.services}/leaving")
            await node.service(namespace, "new")
            yield found
        finally:
            await install(node)


async def objects(node: OnNode) -> dict[str, JsonObject]:
    """All objects that the platform reads or makes."""
    return {
        f"{kind} {one['metadata'].get('namespace', '')}/{one['metadata']['name']}": one
        for kind in _KINDS
        for one in await node.objects(kind, "-A")
    }


def changed(before: JsonObject, after: JsonObject, path: str = "") -> Iterator[str]:
    """What differs between two versions of an object, but for their version itself."""
    for name in sorted(before.keys() | after.keys()):
        one, other = before.get(name), after.get(name)
        if one == other or name == "resourceVersion":
            continue
        if isinstance(one, dict) and isinstance(other, dict):
            yield from changed(one, other, f"{path}.{name}")
        else:
            yield f"{path}.{name}: {one!r} -> {other!r}"


async def writes(node: OnNode) -> dict[str, int]:
    """What the services wrote since the last reset, besides Leases and Events."""
    found: dict[str, int] = {}
    for one in (await node.platform.requests())["requests"]:
        written = one["verb"] in _WRITES and one["resource"].split(".")[0] not in {"leases", "events"}
        if written and one["userAgent"] in _ACCOUNTS and not one["resource"].endswith("reviews"):
            name = f"{one['userAgent']} {one['verb']} {one['resource']}"
            found[name] = found.get(name, 0) + int(one["count"])
    return found


async def until_quiet(node: OnNode) -> dict[str, int]:
    """Wait until the services have written nothing for a while; what they wrote since the last reset."""
    found, since = await writes(node), time.monotonic()
    async with asyncio.timeout(180):
        while time.monotonic() - since < _QUIET_SECONDS:
            await asyncio.sleep(1)
            now = await writes(node)
            if now != found:
                found, since = now, time.monotonic()
    return found


async def test_definitions_objects_and_the_brokers_volume_stay_and_all_else_goes(without: Without) -> None:
    node = without.node
    for kind in _NAMESPACED:
        await node.kubectl("wait", "--for=delete", kind, "-n", NAMESPACE, "-l", _RELEASED, "--timeout=90s")
    for kind in _CLUSTER:
        assert not await node.objects(kind, "-l", _RELEASED)
        found = [one["metadata"]["name"] for one in await node.objects(kind)]
        assert not [name for name in found if name.startswith("aim-engine-")]
    definitions = {one["metadata"]["name"] for one in await node.objects("crds")}
    assert {f"{kind}.aim.eai.amd.com" for kind in _KINDS if kind.startswith("aim")} <= definitions
    claim = (await node.api.get(_CLAIM)).body
    assert (claim["metadata"]["uid"], claim["status"]["phase"]) == (without.claim["metadata"]["uid"], "Bound")
    added = f"aimservices {without.namespace}/new"
    assert (await objects(node)).keys() == {*without.objects, added}


async def test_models_answer_without_the_platform_and_what_is_deleted_waits_for_it(without: Without) -> None:
    node = without.node
    for _ in range(5):
        await node.ask(without.route)
    leaving = (await node.api.get(f"{without.services}/leaving")).body
    assert leaving["metadata"]["deletionTimestamp"]
    assert leaving["metadata"]["finalizers"], "which a running service alone removes"
    new = (await node.api.get(f"{without.services}/new")).body
    assert "status" not in new


async def test_a_new_installation_takes_over_what_is_there_and_writes_what_has_changed(without: Without) -> None:
    node = without.node
    await node.platform.reset_requests()
    await install(node)
    await node.running(f"{without.services}/new")
    await node.api.until_gone(f"{without.services}/leaving")
    wrote = await until_quiet(node)
    now = await objects(node)
    touched = {
        f"{name}{change}" for name, one in without.objects.items() if name in now for change in changed(one, now[name])
    }
    gone = without.objects.keys() - now.keys()
    print(f"writes of a new installation: {wrote}; gone: {sorted(gone)}")
    # The deletion of ``leaving`` is news for the artifact that it shared (AR-426).
    use = ("workload-generations", ".status.lastUsed", ".managedFields")
    others = [
        one for one in sorted(touched) if not (one.startswith("aimartifacts") and any(map(one.__contains__, use)))
    ]
    assert others == [], "these did not change"
    assert wrote, "the audit log names the services"
    assert all(f" {without.namespace}/" in name and "leaving" in name for name in gone)
    assert sum(wrote.values()) < 40, wrote
    await node.ask(without.route)
