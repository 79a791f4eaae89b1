"""`make up`: the platform against a cluster, until Ctrl-C."""

import asyncio
import os

from rich.console import Console
from rich.table import Table

from aim_local.demo.keeping import while_kept_alive
from aim_local.node import NodeSettings
from aim_local.node.platform import NodePlatform
from aim_local.stack import ClusterKind, Stack, StackSettings


async def up(settings: StackSettings, console: Console) -> None:
    """Start everything, tell what runs where, and keep it up.

    Raises:
        StackError: a process could not be started, or ended and could not be started again.
        KubeError: the cluster does not let us in.
    """
    console.print("Starting …", highlight=False)
    if settings.cluster is ClusterKind.NODE:
        await _on_node(console)
        return
    async with Stack(settings) as stack:
        _print_addresses(console, stack)
        await while_kept_alive(stack, console, _for_ever())


async def _on_node(console: Console) -> None:
    async with NodePlatform(NodeSettings.from_environment(), console.print) as platform:
        gateway, nats = await asyncio.to_thread(lambda: (platform.gateway_url, platform.nats_url))
        console.print(
            f"""
  export KUBECONFIG={platform.kubeconfig}
  export AIM_NATS_URL={nats}
  export AIM_GATEWAY_URL={gateway}
  kubectl get pods -A
  kubectl apply -f deploy/local/examples/node    # the demo's manifests

The gateway serves the paths of HTTPRoutes at {gateway}; {platform.node.settings.registry} answers as docker.io.
Stop with Ctrl-C or `kill {os.getpid()}`; the node and all that it runs end with it.""",
            soft_wrap=True,
            highlight=False,
            markup=False,
        )
        await _for_ever()


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()


def _print_addresses(console: Console, stack: Stack) -> None:
    table = Table("process", "PID", "answers at", "log", box=None, pad_edge=False)
    for process in stack.processes:
        table.add_row(process.name, str(process.pid), process.url or "-", str(process.log))
    # A terminal may be narrow, and a path that is cut cannot be copied.
    Console(file=console.file, width=max(console.width, 200)).print(table, highlight=False)
    console.print(
        f"""
  export KUBECONFIG={stack.kubeconfig}
  export AIM_NATS_URL={stack.nats_url}{_export_gateway(stack)}
  kubectl get aimservices,aimmodels,aimservicetemplates,aimartifacts,inferenceservices,httproutes -A

{_played(stack)}
Each service answers /healthz, /readyz, /metrics, /debug/cache and /debug/queue. What is killed is started again.
Stop with Ctrl-C or `kill {os.getpid()}`.""",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )


def _export_gateway(stack: Stack) -> str:
    return f"\n  export AIM_GATEWAY_URL={stack.gateway_url}" if stack.played else ""


def _played(stack: Stack) -> str:
    if not stack.played:
        return "Nothing of the cluster is played: images come from the real docker.io, routes are its own gateway's."
    return (
        "`kubectl apply -f deploy/local/examples` applies the demo's manifests.\n"
        f"The gateway serves the paths of HTTPRoutes at {stack.gateway_url}; the registry plays docker.io.\n"
        f"Failures on demand: {stack.failures_url}, see docs/development/actors.md."
    )
