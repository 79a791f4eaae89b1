"""``aim logs``: what the pods of a service say, of whatever phase it is in (FW-616, FW-685, FW-729)."""

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import urllib3

from aim_cli.cluster.asking import KubeReader
from aim_cli.cluster.refs import Cluster, JsonObject, Ref, ref_of
from aim_cli.objects.tree import references, used_by
from aim_domain import labels
from aim_domain.kind_names import POD
from aim_domain.naming import inference_service_name, optional_label_value
from controller_runtime import ApiError, object_path

_RUN: Final = "the model"
_DOWNLOAD: Final = "its download"
_DISCOVERY: Final = "discovery"
_PAUSE: Final = 1.0
"""Seconds between two looks for pods that are new."""
_REFUSED: Final = (401, 403)
_STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(?:Z|[+-]\d\d:\d\d)) ")
_LAST_WORDS: Final = 5.0
"""Seconds for pods of a service that is gone."""


@dataclass(frozen=True, slots=True)
class Speaker:
    """A container of a pod that matters now.

    Attributes:
        start: which one of the container, counted from zero.
        previous: it has ended and waits for its next start, so what it said is what the one before said.
        running: it may say more.
    """

    pod: Ref
    container: str
    phase: str
    start: int = 0
    previous: bool = False
    running: bool = False

    @property
    def place(self) -> tuple[Ref, str, int]:
        """What it says once, whether it is asked while it runs or when it has ended."""
        return self.pod, self.container, self.start


def speakers(cluster: Cluster, service: Ref, obj: JsonObject) -> list[Speaker]:
    """The containers of the last phase that has any pods: the model itself, else its download, else discovery."""
    workload = inference_service_name(service.name, service.namespace)
    found = cluster.search(POD, service.namespace, f"{labels.KSERVE_INFERENCE_SERVICE}={workload}")
    if found:
        return _of(found, _RUN)
    used = used_by(cluster, service, obj)
    for ref in artifacts_of(cluster, used):
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


def artifacts_of(cluster: Cluster, used: Iterable[Ref]) -> list[Ref]:
    """The artifacts of the caches among what a service uses."""
    caches = [ref for ref in used if ref.kind.kind in ("AIMTemplateCache", "AIMProfileCache")]
    return [one for ref in caches if (cache := cluster.find(ref)) is not None for one in references(ref.kind, cache)]


def last_words(cluster: Cluster, service: Ref, obj: JsonObject) -> list[str]:
    """What objects still tell of pods that are gone: the last report of each download, why templates are not ready."""
    used = used_by(cluster, service, obj)
    lines = []
    for ref in (*artifacts_of(cluster, used), *(one for one in used if one.kind.kind.endswith("ServiceTemplate"))):
        found = cluster.find(ref)
        status = {} if found is None else found.get("status") or {}
        report = (status.get("download") or {}).get("message")
        progress = (status.get("progress") or {}).get("displayPercentage")
        untrue = [one for one in status.get("conditions") or () if one.get("status") != "True"]
        # The one that sums up says it in fewer words.
        why = next((one for one in untrue if one.get("type") != "Ready"), untrue[0] if untrue else {})
        words = (status.get("status"), progress, report, why.get("reason"), why.get("message"))
        if any(words):
            lines.append(f"{ref}: " + ", ".join(str(word) for word in words if word))
    return lines


def _is_of_a_service(pod: JsonObject) -> bool:
    carried = pod["metadata"].get("labels") or {}
    return labels.KSERVE_INFERENCE_SERVICE in carried or labels.CACHE_NAME in carried


def _of(pods: list[JsonObject], phase: str) -> list[Speaker]:
    return [
        _speaker(ref_of(POD, pod), container["name"], phase, pod)
        for pod in pods
        for container in (pod.get("spec") or {}).get("containers") or ()
    ]


def _speaker(ref: Ref, name: str, phase: str, pod: JsonObject) -> Speaker:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    status: JsonObject = next((one for one in statuses if one.get("name") == name), {})
    state = status.get("state") or {}
    waits = "waiting" in state and "terminated" in (status.get("lastState") or {})
    return Speaker(ref, name, phase, int(status.get("restartCount") or 0), waits, "running" in state)


def say(cluster: KubeReader, some: list[Speaker], tail: int, write: Callable[[str], None]) -> dict[Speaker, str]:
    """Tell what was said so far, each with its pod where there are several; who could not be read, and why."""
    unreported: dict[Speaker, str] = {}
    for speaker in some:
        prefix = f"{speaker.pod.name}: " if len(some) > 1 else ""
        try:
            for line in lines_of(cluster, speaker, tail):
                write(prefix + line)
        except (ApiError, urllib3.exceptions.HTTPError) as error:
            unreported[speaker] = f"{speaker.pod}: {getattr(error, 'message', '') or error}"
    return unreported


def follow(
    cluster: KubeReader, service: Ref, tail: int, write: Callable[[str], None], remark: Callable[[str], None]
) -> None:
    """Tell every line with its pod until the service is gone; a pod that starts joins those that go on (FW-729).

    Raises:
        OSError: the reader is gone.
    """
    heard = _Heard(cluster, tail, write, remark)
    phase, away = "", False
    try:
        while not heard.unread:
            try:
                cluster.lists.clear()
                obj = cluster.find(service)
                some = [] if obj is None else speakers(cluster, service, obj)
                away = False
            except (ApiError, urllib3.exceptions.HTTPError) as error:
                if isinstance(error, ApiError) and not error.is_transient:
                    raise
                if not away:
                    remark(f"the cluster does not answer; asking again: {error}")
                away = True
            else:
                if obj is None:
                    return heard.out(_LAST_WORDS)
                if some and some[0].phase != phase:
                    phase = some[0].phase
                    remark(f"logs of {phase}")
                heard.join(some)
            time.sleep(_PAUSE)
        raise heard.unread[0]
    finally:
        heard.stop()


class _Heard:
    """Those who are listened to, each by a thread of its own.

    Attributes:
        unread: why the output has no reader.
    """

    def __init__(
        self, cluster: KubeReader, tail: int, write: Callable[[str], None], remark: Callable[[str], None]
    ) -> None:
        self.unread: list[OSError] = []
        self._remark = remark
        self._remarks: set[str] = set()
        self._silent: set[tuple[Ref, str, int]] = set()
        self._last: dict[tuple[Ref, str, int], str] = {}
        self._cluster = cluster
        self._tail = tail
        self._tell = write
        self._announced: set[tuple[Ref, str, int]] = set()
        self._threads: list[threading.Thread] = []
        self._whole = threading.Lock()
        self._stopped = False

    def join(self, some: Iterable[Speaker]) -> None:
        """Follow the pods that are not followed yet."""
        self._threads = [one for one in self._threads if one.is_alive()]
        for speaker in some:
            # An API server that loses the kubelet ends its answer as if all had been said.
            if speaker.place not in self._announced or (speaker.running and speaker.place in self._silent):
                self._announced.add(speaker.place)
                self._silent.discard(speaker.place)
                thread = threading.Thread(target=self._listen, args=(speaker,), daemon=True)
                thread.start()
                self._threads.append(thread)

    def out(self, seconds: float) -> None:
        """Let them end, for so long."""
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def stop(self) -> None:
        """Tell nothing any more: a thread that printed would meet the end of the process."""
        with self._whole:
            self._stopped = True

    def _listen(self, speaker: Speaker) -> None:
        try:
            try:
                for moment, line in heard_of(self._cluster, speaker, self._tail, self._last.get(speaker.place, "")):
                    if not self._say(self._tell, f"{speaker.pod.name}: {line}"):
                        return
                    self._last[speaker.place] = moment
                self._silent.add(speaker.place)
            except (ApiError, urllib3.exceptions.HTTPError) as error:
                if isinstance(error, ApiError) and error.code in _REFUSED:
                    self._remark_once(f"{speaker.pod}: {error.message}")
                else:
                    # Who has not begun yet, or was cut off, is asked again.
                    self._announced.discard(speaker.place)
        except OSError as error:
            self.unread.append(error)

    def _remark_once(self, text: str) -> None:
        """Of a pod with several containers, too."""
        if text not in self._remarks:
            self._remarks.add(text)
            self._say(self._remark, text)

    def _say(self, write: Callable[[str], None], text: str) -> bool:
        """Whether it could be printed."""
        with self._whole:
            if not self._stopped:
                write(text)
            return not self._stopped


def heard_of(cluster: KubeReader, speaker: Speaker, tail: int, last: str) -> Iterator[tuple[str, str]]:
    """What one container says, each line with its time as the kubelet writes it, which has always the same length.

    What the kubelet itself says in between, of errors, has none; it is printed with the time of the line before.

    Args:
        last: time of the last line that was heard; what is not later is left out. If empty, it begins with the tail.

    Raises:
        ApiError: the API server refuses, as of a container that has not started.
    """
    # Since a whole second, as the API server rounds it.
    begin = f"sinceTime={quote(last)}" if last else f"tailLines={tail}"
    for said in cluster.lines(f"{_path(speaker)}&follow=true&timestamps=true&{begin}"):
        stamp = _STAMP.match(said)
        if stamp is None:
            yield last, said
        elif stamp[1] > last:
            last = stamp[1]
            yield last, said[stamp.end() :]


def lines_of(cluster: KubeReader, speaker: Speaker, tail: int) -> Iterator[str]:
    """What one container said.

    Raises:
        ApiError: the API server refuses, as of a container that has not started.
    """
    yield from cluster.lines(f"{_path(speaker)}&tailLines={tail}")


def _path(speaker: Speaker) -> str:
    path = object_path(POD, speaker.pod.name, speaker.pod.namespace, "log")
    return f"{path}?container={speaker.container}" + ("&previous=true" if speaker.previous else "")
