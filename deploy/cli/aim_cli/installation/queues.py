"""``aim queue``: what the services have to do, as their own debug pages tell it (FW-610)."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import urllib3

from aim_cli.answer import Answer, columns
from aim_cli.cluster.asking import KubeReader
from aim_cli.cluster.broker import OURS
from aim_cli.cluster.refs import JsonObject, require
from aim_cli.errors import Exit, UnreachableError
from aim_domain.kind_names import POD
from controller_runtime import ApiError

_PROBES: Final = "probes"
_HEADER: Final = ("SERVICE", "CONTROLLER", "LEADS", "WAITING", "RUNNING", "DELAYED", "RETRIES", "LONGEST RUNNING")


@dataclass(frozen=True, slots=True)
class Page:
    """What one process tells; ``error`` where it tells nothing."""

    who: str
    page: JsonObject
    error: str = ""


def of_pods(cluster: KubeReader) -> Iterator[Page]:
    """The pages of the platform's pods, through the API server.

    Raises:
        UnreachableError: the pods may not be listed.
    """
    pods = cluster.search(POD, "", OURS)
    require(cluster, POD.plural)
    for pod in pods:
        metadata = pod["metadata"]
        port = _port(pod)
        if port is None:
            continue
        who = (metadata.get("labels") or {}).get("app.kubernetes.io/component") or metadata["name"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}:{port}/proxy/debug/queue"
        try:
            yield Page(f"{who} ({metadata['name']})", cluster.read(path))
        except ApiError as error:
            yield Page(f"{who} ({metadata['name']})", {}, error.message)


def of_addresses(addresses: Iterable[str]) -> Iterator[Page]:
    """The pages at addresses that the user names.

    Raises:
        UnreachableError: one does not answer.
    """
    with urllib3.PoolManager(timeout=urllib3.Timeout(5), retries=False) as pool:
        for address in addresses:
            who, equal, url = address.partition("=")
            url = url if equal else address
            try:
                answer = pool.request("GET", f"{url.rstrip('/')}/debug/queue")
                yield Page(who, json.loads(answer.data))
            except (urllib3.exceptions.HTTPError, ValueError) as error:
                raise UnreachableError(f"{address} tells no queues: {error}; give a service's probe address") from error


def answer(pages: Iterable[Page]) -> Answer:
    """All queues of all processes."""
    some = list(pages)
    if not some:
        raise UnreachableError(
            f"no pod with {OURS} was found; outside of a cluster name the services: --url serving=http://HOST:PORT"
        )
    rows = [row for one in some for row in _rows(one)]
    paused = [what for one in some for what in one.page.get("paused") or ()]
    lines = [*columns(_HEADER, rows), *(f"paused: {what}" for what in dict.fromkeys(paused))]
    remarks = tuple(f"not known: the queues of {one.who}: {one.error}" for one in some if one.error)
    data = [{"process": one.who, **one.page} for one in some]
    return Answer(data, tuple(lines), Exit.UNREADABLE if len(remarks) == len(some) else Exit.WELL, remarks)


def _rows(one: Page) -> Iterator[tuple[str, ...]]:
    leads = "yes" if one.page.get("leads") else "no"
    for controller, queue in (one.page.get("queues") or {}).items():
        numbers = (str(queue.get(name, "")) for name in ("depth", "processing", "delayed", "retries"))
        yield (one.who, controller, leads, *numbers, f"{queue.get('longest_running_seconds', 0):.1f}s")
    if not one.page.get("queues") and not one.error:
        yield (one.who, "", leads, "", "", "", "", "")


def _port(pod: JsonObject) -> int | None:
    ports = [port for one in pod["spec"].get("containers") or () for port in one.get("ports") or ()]
    return next((int(port["containerPort"]) for port in ports if port.get("name") == _PROBES), None)
