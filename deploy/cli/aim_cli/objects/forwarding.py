"""A way to the model past gateway and route: ``kubectl port-forward`` to a pod of it that is ready (FW-690)."""

import re
import subprocess
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from queue import Queue
from typing import Final

from aim_cli.cluster.refs import Cluster, JsonObject, Ref, ref_of
from aim_cli.cluster.resources import POD
from aim_cli.errors import AbsentError, TargetError, UnreachableError
from aim_domain import labels
from aim_domain.naming import inference_service_name

_PATIENCE: Final = 2.0
_LAST: Final = 5
"""Lines that are told."""
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
    """What kubectl says, read to its end, as it waits where nobody reads."""

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
