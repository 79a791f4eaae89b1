"""``aim logs``: what the pods of a service say, of whatever phase it is in (FW-616)."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import urllib3

from aim_cli.asking import KubeReader
from aim_cli.refs import Cluster, JsonObject, Ref, ref_of
from aim_cli.resources import POD
from aim_cli.tree import references
from aim_domain import labels
from aim_domain.naming import inference_service_name, optional_label_value
from controller_runtime.kube.errors import ApiError
from controller_runtime.kube.kinds import object_path

_RUN: Final = "the model"
_DOWNLOAD: Final = "its download"
_DISCOVERY: Final = "discovery"


@dataclass(frozen=True, slots=True)
class Speaker:
    """A container of a pod that matters now."""

    pod: Ref
    container: str
    phase: str


def speakers(cluster: Cluster, service: Ref, obj: JsonObject) -> list[Speaker]:
    """The containers of the last phase that has any pods: the model itself, else its download, else discovery."""
    workload = inference_service_name(service.name, service.namespace)
    found = cluster.search(POD, service.namespace, f"{labels.KSERVE_INFERENCE_SERVICE}={workload}")
    if found:
        return _of(found, _RUN)
    used = references(service.kind, obj)
    artifacts = [
        one
        for ref in used
        if ref.kind.kind == "AIMTemplateCache" and (cache := cluster.find(ref)) is not None
        for one in references(ref.kind, cache)
    ]
    for ref in artifacts:
        found += cluster.search(POD, ref.namespace, f"{labels.CACHE_NAME}={ref.name}")
    if found:
        return _of(found, _DOWNLOAD)
    for ref in used:
        value = optional_label_value(ref.name)
        if ref.kind.kind.endswith("ServiceTemplate") and value is not None:
            # Servers carry the template's label as well; of a cluster's template those of everybody.
            with_template = cluster.search(POD, ref.namespace, f"{labels.TEMPLATE}={value}")
            found += [pod for pod in with_template if not _is_of_a_service(pod)]
    return _of(found, _DISCOVERY)


def _is_of_a_service(pod: JsonObject) -> bool:
    carried = pod["metadata"].get("labels") or {}
    return labels.KSERVE_INFERENCE_SERVICE in carried or labels.CACHE_NAME in carried


def _of(pods: list[JsonObject], phase: str) -> list[Speaker]:
    return [
        Speaker(ref_of(POD, pod), container["name"], phase)
        for pod in pods
        for container in (pod.get("spec") or {}).get("containers") or ()
    ]


def say(cluster: KubeReader, some: list[Speaker], tail: int, tell: Callable[[str], None], *, follow: bool) -> list[str]:
    """Tell every line, each with its pod where there are several; what could not be read is returned."""
    untold: list[str] = []
    whole = threading.Lock()

    def one(speaker: Speaker) -> None:
        prefix = f"{speaker.pod.name}: " if len(some) > 1 else ""
        try:
            for line in lines_of(cluster, speaker, tail, follow=follow):
                with whole:
                    tell(prefix + line)
        except (ApiError, urllib3.exceptions.HTTPError) as error:
            untold.append(f"{speaker.pod}: {getattr(error, 'message', '') or error}")

    threads = [threading.Thread(target=one, args=(speaker,), daemon=True) for speaker in some]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return untold


def lines_of(cluster: KubeReader, speaker: Speaker, tail: int, *, follow: bool) -> Iterator[str]:
    """The lines of one container.

    Raises:
        ApiError: the API server refuses, as of a container that has not started.
    """
    path = object_path(POD, speaker.pod.name, speaker.pod.namespace, "log")
    options = f"container={speaker.container}&tailLines={tail}" + ("&follow=true" if follow else "")
    yield from cluster.lines(f"{path}?{options}")
