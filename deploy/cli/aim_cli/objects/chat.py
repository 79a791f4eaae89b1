"""``aim chat``: talk to the model of a service through its route, or through ``kubectl port-forward`` (FW-617)."""

import json
import re
import subprocess
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Queue
from typing import Any, Final

import urllib3

from aim_cli.cluster.asking import split_lines
from aim_cli.cluster.refs import Cluster, JsonObject, Ref, ref_of, require
from aim_cli.errors import AbsentError, TargetError, UnreachableError
from aim_domain import labels
from aim_domain.kind_names import GATEWAY, HTTP_ROUTE, POD
from aim_domain.naming import http_route_name, inference_service_name

_PATIENCE: Final = 2.0
_LAST: Final = 5
"""Lines that are quoted."""
_EACH: Final = "Handling connection"
_FORWARDING: Final = re.compile(r"Forwarding from (127\.0\.0\.1:\d+)")


@contextmanager
def forwarded(cluster: Cluster, service: Ref, options: Sequence[str]) -> Iterator[str]:
    """Where the model of a service answers while the context is open.

    Args:
        options: of kubectl, which cluster and as whom.

    Raises:
        AbsentError: there is no such service.
        TargetError: no pod of it is ready and tells a port, or kubectl cannot be run.
        UnreachableError: kubectl cannot forward, with its words.
    """
    pod, port = _ready_pod(cluster, service)
    way = ["port-forward", "--address=127.0.0.1", f"--namespace={pod.namespace}", f"pod/{pod.name}", f":{port}"]
    try:
        kubectl = subprocess.Popen(  # noqa: S603
            ["kubectl", *options, *way],  # noqa: S607
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise TargetError(f"--port-forward runs kubectl, which cannot be: {error.strerror}") from error
    with kubectl:
        try:
            heard = _Heard(kubectl)
            address = heard.address()
            if not address:
                raise UnreachableError(f"kubectl port-forward to {pod}: {heard.words or 'it ended without a word'}")
            try:
                yield f"http://{address}"
            except UnreachableError as error:
                kubectl.terminate()
                raise UnreachableError(f"{error}; kubectl port-forward to {pod}: {heard.words}") from error
        finally:
            kubectl.terminate()


class _Heard:
    """What kubectl says, read to its end, as it blocks on a full pipe."""

    def __init__(self, kubectl: "subprocess.Popen[str]") -> None:
        assert kubectl.stdout is not None
        self._lines: deque[str] = deque(maxlen=_LAST)
        self._address: Queue[str] = Queue()
        self._reader = threading.Thread(target=self._read, args=(kubectl.stdout,), daemon=True)
        self._reader.start()

    def _read(self, lines: Iterable[str]) -> None:
        for line in lines:
            found = _FORWARDING.search(line)
            if found is not None:
                self._address.put(found[1])
            elif not line.startswith(_EACH):
                self._lines.append(line.strip())
        self._address.put("")

    def address(self) -> str:
        """Where it forwards from, once it does; empty where it has ended."""
        return self._address.get()

    @property
    def words(self) -> str:
        """The last of what it said besides, once it has ended."""
        self._reader.join(_PATIENCE)
        return "; ".join(self._lines)


def _ready_pod(cluster: Cluster, service: Ref) -> tuple[Ref, int]:
    """A pod, and the port of its first container that tells one."""
    if cluster.find(service) is None:
        raise AbsentError(f"{service} {cluster.unasked.get(str(service), 'does not exist')}")
    workload = inference_service_name(service.name, service.namespace)
    for pod in cluster.search(POD, service.namespace, f"{labels.KSERVE_INFERENCE_SERVICE}={workload}"):
        ports = [port for one in pod["spec"].get("containers") or () for port in one.get("ports") or ()]
        if ports and _is_ready(pod) and "deletionTimestamp" not in pod["metadata"]:
            return ref_of(POD, pod), int(ports[0]["containerPort"])
    raise TargetError(f"no pod of {service} is ready; see why: aim why aimservice {service.namespace}/{service.name}")


def _is_ready(pod: JsonObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


_DATA: Final = "data:"
_DONE: Final = "[DONE]"
_TIMEOUT: Final = urllib3.Timeout(connect=5, read=300)


def address_of(cluster: Cluster, service: Ref, base: str) -> str:
    """Where the model answers: the route's path behind the gateway, or behind an address that the user names.

    Raises:
        AbsentError: there is no such service.
        TargetError: it has no route, or the gateway no address.
        UnreachableError: the service may not be read.
    """
    obj = cluster.find(service)
    if obj is None:
        require(cluster, str(service))
        raise AbsentError(f"{service} does not exist")
    path = ((obj.get("status") or {}).get("routing") or {}).get("path")
    if not path:
        raise TargetError(f"{service} has no route; see why: aim why aimservice {service.namespace}/{service.name}")
    return (base or _gateway(cluster, service)).rstrip("/") + str(path)


def _gateway(cluster: Cluster, service: Ref) -> str:
    route = cluster.find(Ref(HTTP_ROUTE, service.namespace, http_route_name(service.name, service.namespace)))
    parents = ((route or {}).get("spec") or {}).get("parentRefs") or ()
    for parent in parents:
        gateway = cluster.find(Ref(GATEWAY, parent.get("namespace") or service.namespace, parent["name"]))
        addresses = ((gateway or {}).get("status") or {}).get("addresses") or ()
        listeners = ((gateway or {}).get("spec") or {}).get("listeners") or ()
        if addresses and listeners:
            listener = next((one for one in listeners if one.get("name") == parent.get("sectionName")), listeners[0])
            scheme = "https" if listener.get("protocol") == "HTTPS" else "http"
            return f"{scheme}://{addresses[0]['value']}:{listener.get('port', 80)}"
    why = next((f": {what} cannot be read: {why}" for what, why in cluster.unasked.items()), "")
    raise TargetError(
        f"the gateway tells no address{why}; name it: --url http://HOST:PORT, or kubectl port-forward to it"
    )


@dataclass(slots=True)
class Talk:
    """One conversation; what was said before goes along."""

    address: str
    model: str
    pool: urllib3.PoolManager
    said: list[JsonObject]

    @classmethod
    def begin(cls, address: str, model: str = "") -> "Talk":
        """Find out which model answers.

        Raises:
            UnreachableError: none does.
        """
        pool = urllib3.PoolManager(timeout=_TIMEOUT, retries=False)
        return cls(address, model or _model(pool, address), pool, [])

    def ask(self, text: str) -> Iterator[str]:
        """The answer, piece by piece as it comes.

        Raises:
            UnreachableError: no answer, or an error.
        """
        self.said.append({"role": "user", "content": text})
        body = json.dumps({"model": self.model, "messages": self.said, "stream": True})
        url = f"{self.address}/v1/chat/completions"
        whole: list[str] = []
        try:
            headers = {"Content-Type": "application/json"}
            answer = self.pool.request("POST", url, body=body, headers=headers, preload_content=False)
            if answer.status >= 400:
                raise UnreachableError(f"{url}: HTTP {answer.status}: {answer.read(500).decode(errors='replace')}")
            for piece in pieces(split_lines(answer.stream(1024))):
                whole.append(piece)
                yield piece
        except urllib3.exceptions.HTTPError as error:
            raise UnreachableError(f"{url}: {error}") from error
        finally:
            self.said.append({"role": "assistant", "content": "".join(whole)})


def _model(pool: urllib3.PoolManager, address: str) -> str:
    try:
        answer = pool.request("GET", f"{address}/v1/models")
        listed: list[JsonObject] = json.loads(answer.data).get("data") or [] if answer.status < 400 else []
    except urllib3.exceptions.HTTPError as error:
        raise UnreachableError(
            f"{address} does not answer: {error}; name the gateway, or a port-forward to it: --url http://HOST:PORT"
        ) from error
    except ValueError:
        listed = []
    return str(listed[0]["id"]) if listed else ""


def pieces(lines: Iterable[str]) -> Iterator[str]:
    """The text in server-sent events of a chat completion, or in one answer of a server that does not stream."""
    for line in lines:
        text = line.strip().removeprefix(_DATA).strip()
        if not text or text == _DONE:
            continue
        try:
            found: Any = json.loads(text)
        except ValueError:
            continue
        for choice in found.get("choices") or () if isinstance(found, dict) else ():
            said = (choice.get("delta") or choice.get("message") or {}).get("content")
            if said:
                yield str(said)
