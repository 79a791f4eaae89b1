"""A way to the model past gateway and route: ``kubectl port-forward`` to a pod of it that is ready (FW-690)."""

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from aim_cli.cluster.refs import Cluster, JsonObject, Ref, ref_of
from aim_cli.cluster.resources import POD
from aim_cli.errors import AbsentError, TargetError, UnreachableError
from aim_domain import labels
from aim_domain.naming import inference_service_name

_FORWARDING: Final = re.compile(r"Forwarding from (127\.0\.0\.1:\d+)")


@contextmanager
def forwarded(cluster: Cluster, service: Ref, options: Sequence[str]) -> Iterator[str]:
    """Where the model of a service answers while the context is open.

    Args:
        options: of kubectl, which cluster and as whom.

    Raises:
        AbsentError: there is no such service.
        TargetError: no pod of it is ready, or there is no kubectl.
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
    except FileNotFoundError as error:
        raise TargetError("--port-forward runs kubectl, which is not on the PATH") from error
    with kubectl:
        try:
            assert kubectl.stdout is not None
            said = kubectl.stdout.readline()
            found = _FORWARDING.search(said)
            if found is None:
                raise UnreachableError(f"kubectl port-forward to {pod}: {said.strip() or 'it ended without a word'}")
            yield f"http://{found[1]}"
        finally:
            kubectl.terminate()


def _ready_pod(cluster: Cluster, service: Ref) -> tuple[Ref, int]:
    """A pod, and the port of its first container that tells one."""
    if cluster.find(service) is None:
        raise AbsentError(f"{service} {cluster.unasked.get(str(service), 'does not exist')}")
    workload = inference_service_name(service.name, service.namespace)
    for pod in cluster.search(POD, service.namespace, f"{labels.KSERVE_INFERENCE_SERVICE}={workload}"):
        ports = [port for one in pod["spec"].get("containers") or () for port in one.get("ports") or ()]
        if ports and _is_ready(pod):
            return ref_of(POD, pod), int(ports[0]["containerPort"])
    raise TargetError(f"no pod of {service} is ready; see why: aim why aimservice {service.namespace}/{service.name}")


def _is_ready(pod: JsonObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
