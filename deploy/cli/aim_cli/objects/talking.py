"""``aim chat``: talk to the model of a service through its route (FW-617)."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import urllib3

from aim_cli.cluster.asking import split_lines
from aim_cli.cluster.refs import Cluster, JsonObject, Ref
from aim_cli.cluster.refusals import require
from aim_cli.cluster.resources import GATEWAY, HTTP_ROUTE
from aim_cli.errors import AbsentError, TargetError, UnreachableError
from aim_domain.naming import http_route_name

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
