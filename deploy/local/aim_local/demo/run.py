"""The demo from beginning to end."""

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import aiohttp
import yaml
from rich.console import Console
from rich.table import Table

from aim_domain import labels
from aim_domain.kinds import AIM_SERVICE, GATEWAY, HTTP_ROUTE, kind_of
from aim_domain.services import SERVICES
from aim_local.demo.board import COUNTED, Board
from aim_local.demo.keeping import while_kept_alive
from aim_local.demo.summary import complaints
from aim_local.demo.view import showing
from aim_local.node import NodeSettings
from aim_local.node.platform import NodePlatform
from aim_local.stack import ClusterKind, Stack, StackSettings
from aim_local.supervision.process import Row
from controller_runtime import JsonObject, Key, KubeClient, dumps, loads
from controller_runtime.kind_names import KindName
from controller_runtime.kube import from_kubeconfig
from controller_runtime.log import new_traceparent
from controller_runtime.telemetry import root_span

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
"""The folder of example manifests; those whose names begin with a digit make up the demo."""
_MANAGER: Final = "kubectl"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object to apply."""

    kind: KindName
    body: JsonObject

    def __str__(self) -> str:
        metadata = self.body["metadata"]
        where = f"{metadata['namespace']}/" if "namespace" in metadata else ""
        return f"{self.kind.kind} {where}{metadata['name']}"


def read_manifests(files: Sequence[Path]) -> list[Manifest]:
    """All objects of the files, in order.

    Raises:
        ValueError: an object's kind is not one that the demo can apply.
    """
    return [_manifest(file, body) for file in files for body in yaml.safe_load_all(file.read_text("utf-8")) if body]


def demo_files(folder: Path = EXAMPLES) -> list[Path]:
    """The manifests of the demo, in the order of their names."""
    return sorted(folder.glob("[0-9]*.yaml"))


async def apply_all(client: KubeClient, manifests: Sequence[Manifest]) -> str:
    """Apply the objects one after the other, all in one trace; returns its id.

    Without the annotation each object begins a trace of its own.
    """
    traceparent, began = new_traceparent(), time.time()
    for manifest in manifests:
        await client.apply(manifest.kind, _in_trace(manifest.body, traceparent), _MANAGER)
    root_span("kubectl apply", traceparent, began, {"aim.objects": [str(manifest) for manifest in manifests]})
    return traceparent.split("-")[1]


def _in_trace(body: JsonObject, traceparent: str) -> JsonObject:
    metadata = body["metadata"]
    annotations = {labels.ANNOTATION_TRACEPARENT: traceparent, **metadata.get("annotations", {})}
    return {**body, "metadata": {**metadata, "annotations": annotations}}


def _manifest(file: Path, body: JsonObject) -> Manifest:
    if (body["apiVersion"], body["kind"]) == (GATEWAY.api_version, GATEWAY.kind):
        return Manifest(GATEWAY, body)
    kind = kind_of(body["apiVersion"], body["kind"])
    if kind is None:
        raise ValueError(f"{file}: {body['apiVersion']} {body['kind']} can't be applied here; use kubectl")
    return Manifest(kind, body)


_CATALOGUE: Final = frozenset(kind.kind for kind in COUNTED)
_READS: Final = frozenset({"get", "list", "watch"})
_AGENT: Final = "aim-"


def print_report(console: Console, rows: Iterable[Row], board: Board, requests: JsonObject, seconds: float) -> None:
    """Print what it took."""
    console.print(f"\nFrom apply to Running: {seconds:.2f} s", highlight=False)
    catalogue = [line for line in board.lines() if line.kind in _CATALOGUE]
    for line in catalogue:
        console.print(f"{line.kind} {line.name}: {line.summary.state}", highlight=False)
    counts = count_requests(requests)
    table = Table("process", "PID", "ready after", "memory", "API reads", "API writes", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        reads, writes = counts.get(row.name, (0, 0))
        traffic = (str(reads), str(writes)) if row.name in SERVICES else ("", "")
        shown = "unknown" if row.memory is None else f"{row.memory / 1e6:.0f} MB"
        table.add_row(row.name, row.pid, f"{row.start_seconds:.2f} s", shown, *traffic)
    console.print(table)
    reads = sum(one[0] for name, one in counts.items() if name in SERVICES)
    writes = sum(one[1] for name, one in counts.items() if name in SERVICES)
    console.print(
        f"The five services made {reads} reads (lists and watches included) and {writes} writes for the service and "
        "the catalogue together.",
        highlight=False,
        soft_wrap=True,
    )


def count_requests(report: JsonObject) -> dict[str, tuple[int, int]]:
    """Reads and writes by the service that the user agent names; Leases are left out, being a matter of time."""
    reads: Counter[str] = Counter()
    writes: Counter[str] = Counter()
    for entry in report["requests"]:
        agent = str(entry["userAgent"]).partition("/")[0]
        if not agent.startswith(_AGENT) or entry["resource"] == "leases":
            continue
        into = reads if entry["verb"] in _READS else writes
        into[agent.removeprefix(_AGENT)] += int(entry["count"])
    return {name: (reads[name], writes[name]) for name in {*reads, *writes}}


QUESTION: Final = "Hello, who are you?"
_RETRY: Final = 0.1
_TRIES: Final = 30


class ChatError(Exception):
    """The gateway or the model gave no answer; the text says what came instead."""


async def ask(url: str, question: str = QUESTION) -> str:
    """Send a chat request to an OpenAI-compatible base URL; the text of the answer.

    The gateway learns of routes a moment after everybody else, so its refusals are not final at once.

    Raises:
        ChatError: no answer came within seconds.
    """
    body: JsonObject = {"messages": [{"role": "user", "content": question}]}
    refusal = ""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30), trust_env=False) as session:
        for _ in range(_TRIES):
            try:
                async with session.post(
                    f"{url}/v1/chat/completions", data=dumps(body), headers={"Content-Type": "application/json"}
                ) as answer:
                    text = await answer.read()
                    if answer.ok:
                        return str(loads(text)["choices"][0]["message"]["content"])
                    refusal = f"{answer.status} {text.decode(errors='replace')}"
            except (aiohttp.ClientError, TimeoutError) as error:
                refusal = str(error) or type(error).__name__
            await asyncio.sleep(_RETRY)
    raise ChatError(f"{url}/v1/chat/completions: {refusal}")


_SERVICE: Final = Key("demo", "qwen-chat")


_LOOK_AROUND: Final = """\
  export KUBECONFIG={kubeconfig}
  export AIM_NATS_URL={nats_url}
  export AIM_GATEWAY_URL={gateway_url}
  kubectl get aimservices,aimmodels,aimservicetemplates,aimartifacts,inferenceservices,httproutes -A
  kubectl describe aimservice -n {service.namespace} {service.name}
  curl {url}/v1/chat/completions -d '{{"messages": [{{"role": "user", "content": "Hi"}}]}}'
  .venv/bin/aim chat {service} -m Hi
  .venv/bin/aim timeline aimservice {service}
  .venv/bin/aim replay aimservice {service}"""
"""Commands for the user of a demo that stays up; ``{…}`` is known at its end."""


_ENDING: Final = """
AIMService {service} ran {seconds:.1f} s after kubectl apply, and its model answered through the gateway.
The demo has stopped what it started; KEEP=1 make demo keeps it for kubectl, aim and aim console.
Next: docs/guides/try.md on this machine, docs/guides/quick-start.md on a cluster."""


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
        StackError: a process could not be started, or ended and could not be started again.
    """
    run = _on_node if settings.stack.cluster is ClusterKind.NODE else _on_stack
    seconds = await run(settings, console)
    ending = _ENDING.format(service=_SERVICE, seconds=seconds)
    console.print(ending, highlight=False, markup=False, soft_wrap=True)


async def _on_stack(settings: DemoSettings, console: Console) -> float:
    manifests = await asyncio.to_thread(lambda: read_manifests(demo_files()))
    console.print("Starting broker, control plane, registry, cluster, gateway and services …", highlight=False)
    async with Stack(settings.stack) as stack:
        invitation = _invitation(stack) if settings.keep else ""
        return await while_kept_alive(stack, console, _story(settings, stack, console, manifests, invitation))


async def _on_node(settings: DemoSettings, console: Console) -> float:
    console.print("Starting a node, its registry, KServe, a gateway and the platform as pods …", highlight=False)
    async with NodePlatform(NodeSettings.from_environment(), console.print) as platform:
        manifests = await asyncio.to_thread(lambda: read_manifests(demo_files(platform.examples)))
        return await _story(settings, platform, console, manifests, _NODE_INVITATION if settings.keep else "")


class Platform(Protocol):
    """What the demo needs of the platform that it shows."""

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        ...

    @property
    def gateway_url(self) -> str:
        """Base URL under which the paths of HTTPRoutes are served."""
        ...

    @property
    def nats_url(self) -> str:
        """URL of the broker."""
        ...

    async def rows(self) -> Sequence[Row]:
        """Its processes, for the report."""
        ...

    async def reset_requests(self) -> None:
        """Count requests to the API server from zero."""
        ...

    async def requests(self) -> JsonObject:
        """What the API server was asked since."""
        ...


async def _story(
    settings: DemoSettings, platform: Platform, console: Console, manifests: list[Manifest], invitation: str
) -> float:
    """Everything from apply to the answer; the seconds until the service ran."""
    async with KubeClient(await from_kubeconfig(str(platform.kubeconfig)), service="local-demo") as client:
        board = Board(client, _SERVICE.namespace)
        async with board.following():
            await platform.reset_requests()
            async with showing(board, console, _SERVICE.namespace):
                seconds = await _until_running(settings, client, board, manifests)
            requests = await platform.requests()
            gateway_url = await asyncio.to_thread(lambda: platform.gateway_url)
            url = gateway_url + _path(board)
    try:
        answer = await ask(url)
    except ChatError as error:
        raise DemoError(f"the service runs, but does not answer: {error}") from error
    exchange = f"\nPOST {url}/v1/chat/completions\n  user:      {QUESTION}\n  assistant: {answer}"
    console.print(exchange, highlight=False, markup=False, soft_wrap=True)
    print_report(console, await platform.rows(), board, requests, seconds)
    nats_url = await asyncio.to_thread(lambda: platform.nats_url)
    await _show_story(console, nats_url)
    if settings.keep:
        shown = invitation.format(
            kubeconfig=platform.kubeconfig, nats_url=nats_url, gateway_url=gateway_url, url=url, service=_SERVICE
        )
        console.print(shown, soft_wrap=True, highlight=False, markup=False)
        await asyncio.get_running_loop().create_future()
    return seconds


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


async def _show_story(console: Console, nats_url: str) -> None:
    """The story of the service as bars, by the command that tells it."""
    words = ["timeline", "aimservice", str(_SERVICE), "--waterfall"]
    environment = {**os.environ, "AIM_NATS_URL": nats_url, "COLUMNS": str(console.width)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "aim_cli", *words, env=environment, stdout=asyncio.subprocess.PIPE
    )
    reported, _ = await process.communicate()
    shown = f"\naim {' '.join(words)}\n{reported.decode()}"
    console.print(shown, highlight=False, markup=False, soft_wrap=True, end="")


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


_NODE_INVITATION: Final = f"""
Everything stays up until Ctrl-C. In another terminal:

{_LOOK_AROUND}
  kubectl get pods -A
  kubectl delete pod -n aim-system -l app.kubernetes.io/component=serving    # another one takes its place
  aim doctor"""


def _invitation(stack: Stack) -> str:
    """What to do while the demo stays up; ``{…}`` is known at its end."""
    probes = "\n".join(f"  {name:<11} {stack[name].url}" for name in stack.settings.services)
    return f"""
Everything stays up until Ctrl-C; what is killed is started again. In another terminal:

{_LOOK_AROUND}
  kubectl apply -f deploy/local/examples/second-service.yaml
  kubectl annotate namespace {{service.namespace}} local.aim/fail=download=auth    # what goes wrong from now on
  curl {stack.failures_url}    # the same by rules: docs/development/actors.md
  kill -9 PID    # of any process in the table above; only the end of control-plane ends the demo

Each service answers /healthz, /readyz, /metrics, /debug/cache and /debug/queue at:

{probes}

Logs of all processes: {stack.settings.folder / "logs"}"""
