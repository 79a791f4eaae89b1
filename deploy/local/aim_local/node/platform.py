"""The platform on a node: its images in the node's registry, the chart installed by helm, every service a pod."""

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self, final
from urllib.request import Request, urlopen

import yaml

from aim_domain.services import SERVICES
from aim_local.assets import Program as Asset
from aim_local.assets import find_toolset
from aim_local.node.images import MANIFESTS
from aim_local.node.node import Node, Report
from aim_local.node.requirements import NodeError
from aim_local.node.settings import NodeSettings
from aim_local.realcluster.audit import AuditLog, request_report
from aim_local.supervision.process import Row
from controller_runtime import JsonObject, loads

_ROOT: Final = Path(__file__).parents[4]
CHART: Final = _ROOT / "deploy" / "charts" / "aim-engine"
EXAMPLES: Final = _ROOT / "deploy" / "local" / "examples" / "node"
RELEASE: Final = "aim-engine"
NAMESPACE: Final = "aim-system"
_INSTALL_SECONDS: Final = 300
_RESTRICTED: Final = {"pod-security.kubernetes.io/enforce": "restricted"}


@final
class NodePlatform:
    """A node with the platform on it, as an async context.

    A node that runs already is used and stays; one that this starts ends with it, even where this process is killed.
    """

    examples: Final = EXAMPLES
    """The demo's manifests, as a node needs them."""

    def __init__(self, settings: NodeSettings, report: Report) -> None:
        self.node = Node(settings, report)
        self._audit = AuditLog(settings.logs / "audit.log")
        self._keeper: subprocess.Popen[bytes] | None = None

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.node.settings.kubeconfig

    @property
    def gateway_url(self) -> str:
        """Where requests enter, which this machine reaches as pods do."""
        return f"http://{self._address('traefik', 'traefik')}"

    @property
    def nats_url(self) -> str:
        """The broker."""
        return f"nats://{self._address(NAMESPACE, f'{RELEASE}-nats')}:4222"

    async def __aenter__(self) -> Self:
        """Start the node unless it runs, fill its registry, install the chart.

        Raises:
            NodeError: one of these fails.
        """
        try:
            await asyncio.to_thread(self._start)
        except BaseException:
            await asyncio.to_thread(self._stop)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._stop)

    async def reset_requests(self) -> None:
        """Count requests to the API server from zero."""
        await self._audit.reset()

    async def requests(self) -> JsonObject:
        """What the API server was asked since, by user, verb and resource."""
        return request_report(await self._audit.counts())

    async def rows(self) -> Sequence[Row]:
        """The pods of the platform, for the demo's report."""
        return await asyncio.to_thread(self._rows)

    def install(self, values: JsonObject | None = None, *arguments: str, chart: Path = CHART) -> None:
        """`helm upgrade --install` of the chart, and wait until all of it is ready.

        Args:
            values: over those that a node needs.
            chart: a folder or a package.
            arguments: further ones of helm.

        Raises:
            NodeError: helm fails.
        """
        namespace: JsonObject = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "labels": _RESTRICTED},
        }
        self.node.apply_objects([namespace])
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder, f"{number}.yaml") for number in range(2)]
            own = node_values(self.node.settings, self._digests())
            for file, content in zip(files, (own, values or {}), strict=True):
                file.write_text(yaml.safe_dump(content), encoding="utf-8")
            chosen = [word for file in files for word in ("-f", str(file))]
            self.helm(
                "upgrade", "--install", RELEASE, str(chart), "-n", NAMESPACE, *chosen,
                "--wait", f"--timeout={_INSTALL_SECONDS}s", *arguments,
            )  # fmt: skip

    def helm(self, *arguments: str) -> str:
        """What helm prints.

        Raises:
            NodeError: it fails.
        """
        command = (str(find_toolset().program(Asset.HELM)), *arguments)
        return _ran(command, {"KUBECONFIG": str(self.kubeconfig)}, "helm")

    def push_images(self) -> None:
        """Push what `make images engine-images` made to the node's registry; what is there already stays.

        Raises:
            NodeError: an image is missing, or the registry refuses one.
        """
        command = (sys.executable, "-m", "aim_packaging", "images", "push", "--to", self.node.settings.registry)
        _ran(command, {}, "images")

    def _digests(self) -> str:
        """What the tag of the services' images means now, in a few characters."""
        version = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))["appVersion"]
        digests = hashlib.sha256()
        for name in SERVICES:
            url = f"http://{self.node.settings.registry}/v2/amdenterpriseai/aim-engine-{name}/manifests/{version}"
            try:
                with urlopen(Request(url, headers={"accept": ", ".join(MANIFESTS)}), timeout=10) as answer:
                    digests.update(answer.read())
            except OSError as error:
                raise NodeError(f"image aim-engine-{name} not readable in the node's registry: {error}") from error
        return digests.hexdigest()[:12]

    def _start(self) -> None:
        if not self.node.running:
            self.node.start()
            self._keep()
        with self.node.step("images into the registry"):
            self.push_images()
            self.node.drop_replaced_images()
        with self.node.step("helm install"):
            self.install()

    def _keep(self) -> None:
        """Have the node ended with this process, however that ends."""
        command = (sys.executable, "-m", "aim_local.node", "down", "--after", str(os.getpid()))
        self._keeper = subprocess.Popen(  # noqa: S603 - our own command
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
        )

    def _stop(self) -> None:
        if self._keeper is None:
            return
        self.node.stop()
        self._keeper.send_signal(signal.SIGKILL)
        self._keeper.wait()

    def _address(self, namespace: str, service: str) -> str:
        return self.node.kubectl("-n", namespace, "get", "service", service, "-o", "jsonpath={.spec.clusterIP}")

    def _rows(self) -> list[Row]:
        node = self.node.settings.name
        summary = loads(self.node.kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/stats/summary"))
        memory = {
            one["podRef"]["name"]: int(one.get("memory", {}).get("workingSetBytes") or 0) for one in summary["pods"]
        }
        pods = loads(self.node.kubectl("-n", NAMESPACE, "get", "pods", "-o", "json"))["items"]
        return [_row(pod, memory.get(pod["metadata"]["name"])) for pod in pods if pod["status"]["phase"] == "Running"]


def node_values(settings: NodeSettings, digests: str) -> JsonObject:
    """Values of the chart on a node: docker.io is the node's registry, for the services as for the kubelet.

    Args:
        digests: other ones start the pods again, so that images which were built again under their tag run.
    """
    mirror = {"mirrors": [{"url": f"http://{settings.registry}"}], "upstream": {"enabled": False}}
    return {
        "registries": {"docker.io": mirror},
        "nats": {"storage": {"size": "1Gi"}, "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}}},
        "manager": {
            "image": {"pullPolicy": "Always"},
            "podAnnotations": {"aim-local/images": digests},
            "resources": {"requests": {"cpu": "20m", "memory": "96Mi"}},
        },
    }


def _row(pod: JsonObject, memory: int | None) -> Row:
    metadata, status = pod["metadata"], pod["status"]
    ready = next((one for one in status.get("conditions", ()) if one["type"] == "Ready"), None)
    seconds = 0.0
    if ready is not None and ready["status"] == "True":
        since = datetime.fromisoformat(metadata["creationTimestamp"])
        seconds = (datetime.fromisoformat(ready["lastTransitionTime"]) - since).total_seconds()
    component = metadata["labels"].get("app.kubernetes.io/component", "")
    name = component if component in SERVICES else metadata["name"]
    return Row(name, "", seconds, memory)


def _ran(command: Sequence[str], env: Mapping[str, str], what: str) -> str:
    ran = subprocess.run(  # noqa: S603 - programs of ours
        list(command), check=False, capture_output=True, text=True, env={**os.environ, **env}, cwd=_ROOT
    )
    if ran.returncode:
        said = (ran.stderr or ran.stdout).strip()
        raise NodeError(f"{what} failed: {said}")
    return ran.stdout
