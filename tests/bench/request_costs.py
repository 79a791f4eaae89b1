"""What single requests cost a real API server in processor time: ``PYTHONPATH=tests python -m bench.request_costs``.

Requests are sent one after the other, so that nothing else is in the figures; `make kube-assets` first. The sum over
what a workload asks for is the least that it takes, and tells machines apart.
"""

import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias

import structlog
import typer
import uvloop
from bench.figures import Figure, machine, write_results
from bench.site import MANAGER, Site, service_body, site
from bench.surroundings import Surroundings
from bench.table import show
from bench.usage import processor_seconds
from rich.console import Console

from aim_domain import kinds
from controller_runtime import JsonObject, Key
from controller_runtime.kind_names import KindName

_NAMESPACE: Final = "bench-requests"
_WIDTH: Final = 120
_SERVER: Final = "kube-apiserver"

Request: TypeAlias = Callable[[int], Awaitable[object]]


def _inference_service(key: Key) -> JsonObject:
    container = {"name": "kserve-container", "image": "registry.example.com/model:1.0.0", "env": _env()}
    return _body(kinds.INFERENCE_SERVICE, key, {"predictor": {"containers": [container], "maxReplicas": 1}})


def _env() -> list[JsonObject]:
    return [{"name": f"VARIABLE_{number}", "value": "value"} for number in range(10)]


def _route(key: Key) -> JsonObject:
    backend = {"name": "backend", "port": 80}
    rule = {"matches": [{"path": {"type": "PathPrefix", "value": f"/{key.name}"}}], "backendRefs": [backend]}
    return _body(kinds.HTTP_ROUTE, key, {"parentRefs": [{"name": "public"}], "rules": [rule]})


def _body(kind: KindName, key: Key, spec: JsonObject) -> JsonObject:
    metadata = {"name": key.name, "namespace": key.namespace}
    return {"apiVersion": f"{kind.group}/{kind.version}", "kind": kind.kind, "metadata": metadata, "spec": spec}


def _status(key: Key, number: int) -> JsonObject:
    conditions = [
        {
            "type": f"Part{one}Ready",
            "status": "True",
            "reason": "AsAsked",
            "message": f"round {number}",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": 1,
        }
        for one in range(7)
    ]
    body = {name: value for name, value in service_body(key).items() if name != "spec"}
    return {**body, "status": {"status": "Running", "observedGeneration": 1, "conditions": conditions}}


def _requests(place: Site) -> dict[str, Request]:
    client = place.client

    def key(number: int) -> Key:
        return Key(_NAMESPACE, f"s{number}")

    def event(number: int) -> JsonObject:
        about = {"kind": kinds.AIM_SERVICE.kind, "name": f"s{number}", "namespace": _NAMESPACE}
        metadata = {"name": f"s{number}.1", "namespace": _NAMESPACE}
        said = {"reason": "Asked", "message": "as asked", "type": "Normal", "involvedObject": about}
        return {"apiVersion": "v1", "kind": "Event", "metadata": metadata, **said}

    return {
        "create AIMService": lambda n: client.create(kinds.AIM_SERVICE, service_body(key(n)), MANAGER),
        "its status": lambda n: client.apply(kinds.AIM_SERVICE, _status(key(n), n), MANAGER, subresource="status"),
        "create InferenceService": lambda n: client.create(
            kinds.INFERENCE_SERVICE, _inference_service(key(n)), MANAGER
        ),
        "create HTTPRoute": lambda n: client.create(kinds.HTTP_ROUTE, _route(key(n)), MANAGER),
        "create Event": lambda n: client.create(kinds.EVENT, event(n), MANAGER),
        "read": lambda n: client.get(kinds.AIM_SERVICE, f"s{n}", _NAMESPACE),
    }


async def measure(count: int) -> list[Figure]:
    """Each request so many times."""
    figures = []
    with tempfile.TemporaryDirectory(prefix="aim-bench-") as folder:
        async with site(Path(folder), services=(), surroundings=Surroundings.FAKES, answered=False) as place:
            await place.namespace(_NAMESPACE)
            for name, send in _requests(place).items():
                await place.settled()
                before = processor_seconds(place.stack[_SERVER].pid)
                for number in range(count):
                    await send(number)
                used = processor_seconds(place.stack[_SERVER].pid) - before
                figures.append(Figure("request", name, 1000 * used / count, "ms"))
    return figures


def main(count: int = 300) -> None:
    """Measure, print, keep."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    begun, on = time.monotonic(), machine()
    figures = uvloop.run(measure(count))
    show(figures, Console(width=None if sys.stdout.isatty() else _WIDTH))
    typer.echo(f"kept in {write_results(figures, on, time.monotonic() - begun)}")


if __name__ == "__main__":
    typer.run(main)
