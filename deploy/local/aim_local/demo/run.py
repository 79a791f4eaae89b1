"""The demo from beginning to end."""

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console

from aim_local.demo.board import Board
from aim_local.demo.chat import QUESTION, ChatError, ask
from aim_local.demo.manifests import Manifest, apply_all, demo_files, read_manifests
from aim_local.demo.report import print_report
from aim_local.demo.summary import complaints
from aim_local.demo.view import showing
from aim_local.keys import Key
from aim_local.stack import Stack, StackSettings
from aim_shared.api.kinds import AIM_SERVICE, HTTP_ROUTE
from aim_shared.json import JsonObject
from aim_shared.kube.client import KubeClient
from aim_shared.kube.config import from_kubeconfig

_SERVICE: Final = Key("demo", "qwen-chat")
_MEMORY: Final = "control-plane"
_ENDED: Final = "ended by itself"


class DemoError(Exception):
    """The demo did not come to its answer; the text says why."""


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """How the demo runs.

    Attributes:
        stack: the processes.
        seconds: how long everything from apply to the answer may take.
        keep: stay up until interrupted.
    """

    stack: StackSettings
    seconds: float = 120.0
    keep: bool = False


async def demo(settings: DemoSettings, console: Console) -> None:
    """Start the stack, apply the manifests, wait for the service, ask it something, report.

    Raises:
        DemoError: no answer came, with the reason.
        StackError: a process could not be started, or ended by itself.
    """
    manifests = await asyncio.to_thread(lambda: read_manifests(demo_files()))
    console.print("Starting broker, control plane, registry, cluster, gateway and services …", highlight=False)
    async with Stack(settings.stack) as stack:
        await _unless_crashed(stack, _story(settings, stack, console, manifests))
        if settings.keep:
            await _keep_up(stack, console)


async def _unless_crashed(stack: Stack, story: Coroutine[Any, Any, None]) -> None:
    """Run the story, or raise as soon as a process of the stack ends by itself."""
    telling, crashing = asyncio.ensure_future(story), asyncio.ensure_future(stack.crash())
    try:
        await asyncio.wait((telling, crashing), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (telling, crashing):
            task.cancel()
        await asyncio.wait((telling, crashing))
    if not telling.cancelled():
        try:
            telling.result()
        except ExceptionGroup as group:
            # The watches behind the story are a task group, which wraps what goes wrong among them.
            raise _first(group) from group
    elif not crashing.cancelled():
        raise crashing.result().failure(_ENDED)


async def _keep_up(stack: Stack, console: Console) -> None:
    """Start again what ends, as a cluster would; only the control plane's memory can't be brought back."""
    while True:
        process = await stack.crash()
        if process.name == _MEMORY:
            raise process.failure(_ENDED)
        console.print(f"{process.name} {_ENDED}; starting it again", highlight=False)
        await process.start()
        console.print(f"{process.name} is ready again after {process.start_seconds:.2f} s", highlight=False)


def _first(group: ExceptionGroup) -> Exception:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error


async def _story(settings: DemoSettings, stack: Stack, console: Console, manifests: list[Manifest]) -> None:
    async with KubeClient(await from_kubeconfig(str(stack.kubeconfig)), service="local-demo") as client:
        board = Board(client, _SERVICE.namespace)
        async with board.following():
            await stack.reset_requests()
            async with showing(board, console, _SERVICE.namespace):
                seconds = await _until_running(settings, client, board, manifests)
            requests = await stack.requests()
            url = stack.gateway_url + _path(board)
    try:
        answer = await ask(url)
    except ChatError as error:
        raise DemoError(f"the service runs, but gives no answer: {error}") from error
    exchange = f"\nPOST {url}/v1/chat/completions\n  user:      {QUESTION}\n  assistant: {answer}"
    console.print(exchange, highlight=False, markup=False, soft_wrap=True)
    print_report(console, stack, board, requests, seconds)
    if settings.keep:
        _invite(console, stack, url)


async def _until_running(settings: DemoSettings, client: KubeClient, board: Board, manifests: list[Manifest]) -> float:
    """Apply, and wait until the service runs; the seconds that this took."""
    begun = time.monotonic()
    try:
        async with asyncio.timeout(settings.seconds):
            await apply_all(client, manifests)
            await board.until(lambda: _state(board) == "Running")
    except TimeoutError:
        raise DemoError(_why_not(board, settings.seconds)) from None
    return time.monotonic() - begun


def _service(board: Board) -> JsonObject:
    return board.get(AIM_SERVICE.kind, _SERVICE) or {}


def _state(board: Board) -> str:
    return str((_service(board).get("status") or {}).get("status") or "")


def _why_not(board: Board, seconds: float) -> str:
    state = _state(board) or "without a status"
    reasons = complaints(_service(board)) or "  it has no conditions: is the serving service at work?"
    return f"AIMService {_SERVICE} is {state} after {seconds:g} s:\n{reasons}"


def _path(board: Board) -> str:
    """The path of the service's route."""
    uid = _service(board)["metadata"]["uid"]

    def is_own(route: JsonObject) -> bool:
        return any(owner["uid"] == uid for owner in route["metadata"].get("ownerReferences") or ())

    route = next((one for one in board.all(HTTP_ROUTE.kind) if is_own(one)), None)
    if route is None:
        raise DemoError(f"AIMService {_SERVICE} runs, but no HTTPRoute belongs to it; is routing at work?")
    return str(route["spec"]["rules"][0]["matches"][0]["path"]["value"])


def _invite(console: Console, stack: Stack, url: str) -> None:
    console.print(
        f"""
Everything stays up until Ctrl-C; what is killed is started again. In another terminal:

  export KUBECONFIG={stack.kubeconfig}
  export AIM_NATS_URL={stack.nats_url}
  kubectl get aimservices,aimmodels,aimservicetemplates,aimartifacts,inferenceservices,httproutes -A
  kubectl describe aimservice -n {_SERVICE.namespace} {_SERVICE.name}
  kubectl apply -f deploy/local/examples/second-service.yaml
  kubectl annotate namespace {_SERVICE.namespace} local.aim/fail=download=auth    # what goes wrong from now on
  curl {url}/v1/chat/completions -d '{{"messages": [{{"role": "user", "content": "Hi"}}]}}'

Logs of all processes: {stack.settings.folder / "logs"}""",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )
