"""Which predictors can answer, by the Kubernetes Service in front of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import final

from aim_local.engine.adapters import EnginePod
from controller_runtime import Key


@dataclass(frozen=True, slots=True)
class Backend:
    """What is behind a Service: the model and the pods that are ready."""

    service: Key
    model: str
    pods: tuple[EnginePod, ...]


@final
class Backends:
    """The backends of one cluster; the KServe actor keeps them right."""

    def __init__(self) -> None:
        self._by_service: dict[Key, Backend] = {}
        self._services: dict[Key, Key] = {}
        self._turn = count()

    def update(self, service: Key, inference_service: Key, model: str, pods: Sequence[EnginePod]) -> None:
        """The InferenceService's Service has these ready pods."""
        self._services[inference_service] = service
        self._by_service[service] = Backend(service, model, tuple(pods))

    def remove(self, inference_service: Key) -> None:
        """The InferenceService is gone."""
        service = self._services.pop(inference_service, None)
        if service is not None:
            self._by_service.pop(service, None)

    def of_host(self, host: str) -> Backend | None:
        """The backend that an HTTP Host means: a pod by its address, or `<service>.<namespace>`.

        Cluster domain and port may follow.
        """
        address = host.partition(":")[0]
        for backend in self._by_service.values():
            for pod in backend.pods:
                if pod.address and pod.address == address:
                    return Backend(backend.service, backend.model, (pod,))
        name, _, rest = address.partition(".")
        return self._by_service.get(Key(rest.partition(".")[0], name))

    def next_pod(self, backend: Backend) -> EnginePod | None:
        """The pod that takes the next request, in turn; None while none is ready."""
        return backend.pods[next(self._turn) % len(backend.pods)] if backend.pods else None
