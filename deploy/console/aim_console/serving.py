"""Running the console until a signal ends it."""

import asyncio
import secrets
import socket
from collections.abc import Callable
from typing import Final

import uvicorn

from aim_cli.cluster.client import cluster
from aim_cli.cluster.refs import JsonObject
from aim_cli.cluster.targets import Where
from aim_cli.errors import UnreachableError
from aim_console.access import Access, question
from aim_console.app import Console
from aim_console.login import PrivateDoor
from aim_console.mirror import Mirror, mirror, wait_ended
from aim_domain.kind_names import NAMESPACE
from controller_runtime import Kind, Resource
from controller_runtime.log import FACTS_PART, STREAM_NOT_FOUND, BusApiError
from controller_runtime.manager import InProcessServer

HOST: Final = "127.0.0.1"
_REVIEW: Final = Kind(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False, model=Resource
)


async def serve(where: Where, nats_url: str, port: int, announce: Callable[[str], None], trace_url: str = "") -> None:
    """Serve on the loopback until cancelled; `announce` receives the address to open.

    Raises:
        UnreachableError: cluster or broker do not answer or refuse, the port is taken, or nothing more is learnt from
            the broker.
    """
    async with cluster(where.kubeconfig, where.context) as kube, mirror(nats_url) as present:

        async def review(question: JsonObject) -> JsonObject:
            return await kube.create(_REVIEW, question, "aim-console")

        await _readable(present)
        await _check_known(where)
        token = secrets.token_urlsafe(24)
        listener = _listen(port)
        console = Console(present, PrivateDoor(Access(review), token, kube), trace_url)
        config = uvicorn.Config(
            console.application(), http="httptools", loop="none", ws="none", lifespan="off", log_config=None,
            access_log=False, server_header=False, timeout_graceful_shutdown=1,
        )  # fmt: skip
        server = InProcessServer(config)
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        announce(f"http://{HOST}:{listener.getsockname()[1]}/?token={token}")
        try:
            await wait_ended(serving, present)
        finally:
            present.end()
            server.stop()
            await asyncio.wait((serving,))


async def _check_known(where: Where) -> None:
    """Ask a review: who is not known to the API server would see nothing (FW-732).

    Raises:
        UnreachableError: it does not know who asks, or does not answer.
    """
    # A connection of its own: what goes wrong in that of the console comes out of a group of tasks, unworded.
    async with cluster(where.kubeconfig, where.context) as kube:
        await kube.create(_REVIEW, question(NAMESPACE, ""), "aim-console")


async def _readable(present: Mirror) -> None:
    """Ask for nothing in the way in which everything is read: whom the broker refuses that gets no pages (FW-731)."""
    try:
        await present.history.present([(FACTS_PART, "console")])
    except BusApiError as error:
        # What is being installed has no streams yet.
        if error.code != STREAM_NOT_FOUND:
            raise


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        why = f"port {port} of {HOST} cannot be used: {error.strerror}; choose another --port"
        raise UnreachableError(why) from error
    return listener
