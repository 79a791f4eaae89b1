"""The release of the platform on a node: with other values for a while, and what is to be so afterwards."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from support.on_node import OnNode

from aim_local.node import NodeError
from aim_local.node.platform import NAMESPACE, RELEASE
from controller_runtime import JsonObject

UNCHECKED: Final[JsonObject] = {"check": {"enabled": False}}
"""Values of an upgrade that is not about the check, which takes as long as all the rest."""
LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
_ROLLED_SECONDS: Final = 180
_OF_CLUSTER: Final = (
    "aimclustermodelsources", "aimclustermodels", "aimclusterservicetemplates", "aimclusterruntimeconfigs",
)  # fmt: skip
_NAMESPACED: Final = (
    "aimservices", "aimtemplatecaches", "aimartifacts", "aimservicetemplates", "aimmodels", "aimruntimeconfigs",
)  # fmt: skip


async def install(node: OnNode, values: JsonObject | None = None, *arguments: str) -> None:
    """`helm upgrade --install` with what a node needs and these values, until all of it is ready."""
    await asyncio.to_thread(lambda: node.platform.install(values, *arguments))


async def helm(node: OnNode, *arguments: str) -> str:
    """What helm prints about the release's namespace; the test fails where it fails."""
    return await asyncio.to_thread(lambda: node.platform.helm(*arguments, "-n", NAMESPACE))


async def refused(node: OnNode, *arguments: str) -> str:
    """What helm says when it fails; the test fails where it does not."""
    try:
        said = await helm(node, *arguments)
    except NodeError as error:
        return str(error)
    raise AssertionError(f"helm {arguments} did not fail: {said}")


@asynccontextmanager
async def released(node: OnNode, values: JsonObject, *arguments: str) -> AsyncIterator[None]:
    """The release with these values; afterwards it is as on every node."""
    try:
        await install(node, values, *arguments)
        yield
    finally:
        await restore(node)


async def restore(node: OnNode) -> None:
    """Make the release as on every node, also after an upgrade that failed.

    Helm compares an upgrade with the last revision that succeeded. What a failed one added would stay, such as a
    variable of a container, so the way leads back over a rollback.
    """
    history = json.loads(await helm(node, "history", RELEASE, "-o", "json"))
    if history and history[-1]["status"] != "deployed":
        [good] = [one["revision"] for one in history if one["status"] == "deployed"]
        await helm(node, "rollback", RELEASE, str(good), "--wait", "--timeout=180s")
    await install(node)


async def remove_platform(node: OnNode) -> None:
    """Delete all objects of the platform while a release runs, then the releases, definitions and the broker's data."""
    for kind in (*_OF_CLUSTER, *_NAMESPACED):
        everywhere = ["-A"] if kind in _NAMESPACED else []
        with suppress(NodeError):
            await node.kubectl("delete", kind, "--all", *everywhere, "--timeout=120s", "--ignore-not-found")
    for release in json.loads(await helm(node, "list", "-o", "json")):
        await helm(node, "uninstall", release["name"], "--wait")
    await node.kubectl("-n", NAMESPACE, "delete", "pvc", "--all")
    crds = [one["metadata"]["name"] for one in await node.objects("crds")]
    for name in crds:
        if name.endswith(".aim.eai.amd.com"):
            await node.kubectl("delete", "crd", name, "--timeout=120s")


async def revision(node: OnNode) -> int:
    """Number of the release's revision."""
    secrets = await node.objects("secrets", "-n", NAMESPACE, "-l", f"owner=helm,name={RELEASE}")
    return max(int(one["metadata"]["labels"]["version"]) for one in secrets)


async def rolled_out(node: OnNode, *names: str) -> None:
    """Wait until Deployments have the pods that they want, and no others."""
    for name in names:
        await node.kubectl(
            "-n", NAMESPACE, "rollout", "status", f"deploy/aim-engine-{name}", f"--timeout={_ROLLED_SECONDS}s"
        )


async def leader(node: OnNode, service: str) -> str:
    """Name of the pod that holds the Lease of a service; empty where none does."""
    lease = (await node.api.get(f"{LEASES}/aim-{service}")).body
    holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
    return holder.partition("_")[0]
