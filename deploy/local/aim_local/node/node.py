"""`Node`: a Kubernetes of real programs on this machine, whose pods are containers."""

import base64
import fcntl
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, final

import yaml

from aim_local.assets import AssetError, Definitions, Toolset, find_toolset
from aim_local.assets import Program as Asset
from aim_local.node import kernel, leftovers
from aim_local.node.daemons import Daemon, Daemons
from aim_local.node.images import Runtime
from aim_local.node.keys import Keys
from aim_local.node.network import make_bridge, make_cgroups, make_namespace
from aim_local.node.programs import Programs
from aim_local.node.requirements import NodeError, require_free_ports, require_machine
from aim_local.node.settings import CLUSTER_DOMAIN, GPUS, NodeSettings
from aim_local.realcluster import kserve
from controller_runtime import JsonObject, dumps

MANIFESTS: Final = Path(__file__).parent / "manifests"
_KSERVE: Final = "kserve"
_WEBHOOKS: Final = "kserve-webhook-server-service"
_TELEMETRY: Final = "opentelemetry-operator-system"
_NEEDED: Final = tuple(one for one in Asset if one not in {Asset.COLLECTOR, Asset.KEDA_SCALER})
_UPSTREAM: Final = (Definitions.KSERVE, Definitions.GATEWAY, Definitions.KEDA, Definitions.OPENTELEMETRY)
_READY_SECONDS: Final = 180
_RUNTIME: Final = "containerd"
_LAST: Final = (Asset.ETCD, Asset.APISERVER, _RUNTIME)
"""What the end of the others needs."""
_OF_WORKERS: Final = frozenset({_RUNTIME, Asset.KUBELET, Asset.KUBE_PROXY, Asset.KUBE_ROUTER})
"""What a node without a control plane runs."""

_RESTARTED: Final[Mapping[str, Callable[[Programs], Daemon]]] = {
    "registry": Programs.registry,
    "hub": Programs.hub,
    "containerd": Programs.containerd,
    Asset.ETCD: Programs.etcd,
    Asset.APISERVER: Programs.apiserver,
    Asset.CONTROLLER_MANAGER: Programs.controller_manager,
    Asset.SCHEDULER: Programs.scheduler,
    Asset.KUBELET: Programs.kubelet,
    Asset.KUBE_PROXY: Programs.proxy,
    Asset.KUBE_ROUTER: Programs.policies,
}

Report = Callable[[str], None]
"""Takes a line for people."""


@final
class Node:
    """One node, and a second one without a control plane on demand; there is one of both per machine.

    What runs is found by its files and names, so any process may end what another one has started.
    """

    def __init__(self, settings: NodeSettings, report: Report, toolset: Toolset | None = None) -> None:
        """``toolset`` is this machine's unless given."""
        self.settings = settings
        self.daemons = Daemons(settings.run / "pids", settings.logs)
        self._report = report
        self._toolset = toolset or find_toolset()

    @property
    def running(self) -> bool:
        """Whether a program of it runs; others may be down. One that was killed as a whole does not run."""
        return bool(self._running(self.settings))

    def start(self) -> None:
        """Start everything; pods, Services, DNS, volumes, KServe and a gateway work when this returns.

        Raises:
            NodeError: the machine cannot run a node, another one runs, or a part does not start; nothing runs then.
        """
        self.require()
        with self._alone():
            if self.running:
                raise NodeError(f"node {self.settings.name} running already; use it, or end it with `make node-down`")
            leftovers.remove(self.settings)
            shutil.rmtree(self.settings.logs, ignore_errors=True)
            try:
                self._start()
            except BaseException:
                self._end()
                raise

    def require(self) -> None:
        """Make sure that a node can start here.

        Raises:
            NodeError: the machine cannot run one, or a program is not built.
        """
        require_machine(self.settings)
        try:
            self._toolset.require(*_NEEDED, *Definitions)
        except AssetError as error:
            raise NodeError(str(error)) from error

    def stop(self) -> None:
        """End it and remove what it left on the machine, whatever state it is in; images and logs stay."""
        with self._alone():
            self._end()

    def restart(self, name: str) -> None:
        """Start one of the programs again with the files of the running node; it is ended first where it runs.

        Containers outlive their kubelet and their runtime. Programs of the worker carry its name: `kubelet-node-1`.

        Raises:
            NodeError: it does not become ready, or there is no such program.
        """
        known = {
            one.program(asset): (asset, one)
            for one in self.settings.nodes
            for asset in (_OF_WORKERS if one.is_worker else _RESTARTED)
        }
        if name not in known:
            raise NodeError(f"{name} unknown: the node has no such program; name one of {', '.join(sorted(known))}")
        asset, settings = known[name]
        if not self._running(settings):
            raise NodeError(f"{name} not restarted: the node is not running; start it with `make node`")
        self.daemons.stop(name)
        self.daemons.start(_RESTARTED[asset](self._programs(settings)))
        if asset == Asset.KUBELET:
            self._claim_gpus(settings)

    def add_worker(self) -> NodeSettings:
        """Start the second node, in a network of its own; its Node is Ready when this returns.

        It ends with the node, or by `remove_worker`.

        Raises:
            NodeError: the node does not run, the worker runs already, or a part does not start; the worker has ended
                then.
        """
        worker = self.settings.worker
        with self._alone():
            if not self.running:
                raise NodeError(f"{worker.name} not started: there is no node; start it with `make node`")
            if self._running(worker):
                raise NodeError(f"{worker.name} running already; use it, or end both with `make node-down`")
            leftovers.remove(worker)
            try:
                for folder in (worker.run, worker.sockets):
                    folder.mkdir(parents=True, exist_ok=True)
                with self.step(f"network of {worker.name}"):
                    make_namespace(worker)
                    make_cgroups(worker)
                self._join(worker)
            except BaseException:
                self._end_worker(worker)
                raise
        return worker

    def remove_worker(self) -> None:
        """End the second node as if it were switched off, and delete its Node and pods; its images stay.

        Raises:
            NodeError: something of it is left.
        """
        with self._alone():
            self._end_worker(self.settings.worker)

    def kubectl(self, *arguments: str, given: object | None = None) -> str:
        """What kubectl prints.

        Raises:
            NodeError: it fails.
        """
        binary = self._toolset.program(Asset.KUBECTL)
        command = (str(binary), "--kubeconfig", str(self.settings.kubeconfig), *arguments)
        text = None if given is None else dumps(given).decode()
        ran = subprocess.run(command, check=False, capture_output=True, text=True, input=text)  # noqa: S603
        if ran.returncode:
            said = (ran.stderr or ran.stdout).strip()
            raise NodeError(f"`kubectl {' '.join(arguments)}` failed: {said}")
        return ran.stdout

    def apply(self, name: str, **values: object) -> None:
        """Apply one of the node's manifests; ``{{name}}`` in it is the value of that name.

        Raises:
            NodeError: the API server refuses an object.
        """
        text = (MANIFESTS / name).read_text(encoding="utf-8")
        for key, value in values.items():
            text = text.replace(f"{{{{{key}}}}}", str(value))
        self.apply_objects([one for one in yaml.safe_load_all(text) if one])

    def apply_objects(self, objects: list[JsonObject]) -> None:
        """Apply objects as `kubectl apply --server-side` does."""
        whole = {"apiVersion": "v1", "kind": "List", "items": objects}
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=whole)

    def rolled_out(self, namespace: str, *names: str) -> None:
        """Wait until Deployments are available."""
        for name in names:
            self.kubectl("-n", namespace, "rollout", "status", f"deploy/{name}", f"--timeout={_READY_SECONDS}s")

    def _start(self) -> None:
        settings = self.settings
        for folder in (
            settings.run,
            settings.logs,
            settings.run / "volumes",
            settings.registry_storage,
            settings.sockets,
        ):
            folder.mkdir(parents=True, exist_ok=True)
        keys = Keys(settings.run / "keys", settings)
        keys.write()
        programs = Programs(settings, self._toolset, keys)
        kernel.prepare(settings)
        make_bridge(settings)
        require_free_ports(settings)
        self._begin("registry, Hub", programs.registry(), programs.hub())
        self._begin("control plane", programs.etcd(), programs.apiserver())
        self._begin("controllers", programs.controller_manager(), programs.scheduler())
        self._join(settings)
        with self.step("DNS, volumes"):
            self.apply("core.yaml", domain=CLUSTER_DOMAIN, dns=settings.dns, volumes=settings.run / "volumes")
            self.rolled_out("kube-system", "coredns")
            self.rolled_out("local-path-storage", "local-path")
        with self.step("KServe, gateway"):
            self._neighbours(keys)
        with self.step("autoscaling"):
            self._autoscaling(keys)

    def _join(self, settings: NodeSettings) -> None:
        """Start what each node runs, and wait until its Node takes pods."""
        programs, runtime = self._programs(settings), Runtime(settings, self._toolset)
        self._begin("container runtime", programs.containerd())
        if runtime.remove_containers():
            # It has read those that a killed node left, and would go on with them.
            self.daemons.stop(settings.program(_RUNTIME))
            self._begin("container runtime", programs.containerd())
        with self.step("images"):
            runtime.import_images()
        self._begin("node", programs.kubelet(), programs.proxy(), *([programs.policies()] if settings.policies else []))
        with self.step(f"{settings.name} ready, GPUs"):
            self.kubectl("wait", "--for=create", f"node/{settings.name}", "--timeout=60s")
            self.kubectl("wait", "--for=condition=Ready", f"node/{settings.name}", f"--timeout={_READY_SECONDS}s")
            self._claim_gpus(settings)

    def _programs(self, settings: NodeSettings) -> Programs:
        return Programs(settings, self._toolset, Keys(self.settings.run / "keys", self.settings))

    def _running(self, settings: NodeSettings) -> list[str]:
        """Programs of one node that run."""
        worker = {self.settings.worker.program(one) for one in _OF_WORKERS}
        return [
            one
            for one in self.daemons.names()
            if (one in worker) == settings.is_worker and self.daemons.pid(one) is not None
        ]

    def _begin(self, what: str, *daemons: Daemon) -> None:
        with self.step(what):
            for one in daemons:
                self.daemons.start(one)

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Report what the body does, with its seconds."""
        begun = time.monotonic()
        yield
        self._report(f"{what:<24} {time.monotonic() - begun:6.1f} s")

    def _claim_gpus(self, settings: NodeSettings) -> None:
        """Make a node one with accelerators; the kubelet leaves what no device plugin has reported."""
        node = settings.name
        labels = {"amd.com/gpu.device-id": "74a1", "amd.com/gpu.device-id.74a1": GPUS, "amd.com/gpu.vram": "192G"}
        self.kubectl("label", "node", node, "--overwrite", *(f"{name}={value}" for name, value in labels.items()))
        patch = [{"op": "add", "path": "/status/capacity/amd.com~1gpu", "value": str(GPUS)}]
        self.kubectl("patch", "node", node, "--subresource=status", "--type=json", "-p", json.dumps(patch))

    def _neighbours(self, keys: Keys) -> None:
        """What the platform works with: KServe, and a gateway."""
        self.apply_objects([one for some in _UPSTREAM for one in self._toolset.definitions(some)])
        self.apply("definitions.yaml")
        self.apply_objects(self._kserve(keys))
        self.apply("kserve.yaml")
        self.apply("gateway.yaml")
        self.rolled_out(_KSERVE, "kserve-controller-manager")
        self.rolled_out("traefik", "traefik")
        shipped = self._toolset.definitions(Definitions.KSERVE_WEBHOOKS)
        self.apply_objects(kserve.webhooks(shipped, _kserve_client, keys.authority.cert_pem.bytes()))

    def _autoscaling(self, keys: Keys) -> None:
        certificate, key = keys.webhook(f"opentelemetry-webhook.{_TELEMETRY}.svc")
        texts = {"authority": keys.authority.cert_pem.bytes().decode(), "certificate": certificate, "key": key}
        self.apply(
            "autoscaling.yaml", **{name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        )
        self.rolled_out("kube-system", "metrics-server")
        self.rolled_out("keda", "keda-operator", "keda-metrics-apiserver", "keda-otel-scaler")
        self.rolled_out(_TELEMETRY, "opentelemetry-operator")

    def _kserve(self, keys: Keys) -> list[JsonObject]:
        """The namespace, settings and certificate of KServe."""
        [shipped] = self._toolset.definitions(Definitions.KSERVE_CONFIG)
        certificate, key = keys.webhook(f"{_WEBHOOKS}.{_KSERVE}.svc")
        secret: JsonObject = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {"name": "kserve-webhook-server-cert", "namespace": _KSERVE},
            "stringData": {"tls.crt": certificate, "tls.key": key},
        }
        namespace: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _KSERVE}}
        return [namespace, kserve.settings(shipped, _KSERVE), secret]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other commands from starting or ending the node meanwhile."""
        self.settings.folder.mkdir(parents=True, exist_ok=True)
        with (self.settings.folder / "lock").open("a", encoding="ascii") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._report("another command starts or ends the node; waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _end(self) -> None:
        self._end_programs(*self.settings.nodes)
        leftovers.remove(self.settings)
        if left := leftovers.leftovers(self.settings):
            raise NodeError("node ended, but it left:\n" + "\n".join(left))

    def _end_worker(self, worker: NodeSettings) -> None:
        self._end_programs(worker)
        leftovers.remove(worker)
        if left := leftovers.leftovers(worker):
            raise NodeError(f"{worker.name} ended, but it left:\n" + "\n".join(left))
        about = ("--ignore-not-found", "--wait=false")
        self.kubectl("delete", "node", worker.name, *about)
        # Else the controller of orphaned pods does it after a minute.
        on_it = f"--field-selector=spec.nodeName={worker.name}"
        self.kubectl("delete", "pods", "--all-namespaces", on_it, "--force", "--grace-period=0", *about)

    def drop_replaced_images(self) -> None:
        """Have the next pods pull what was pushed under the same tag since it was pulled last.

        Raises:
            NodeError: containerd does not answer.
        """
        Runtime(self.settings, self._toolset).drop_replaced()

    def _end_programs(self, *nodes: NodeSettings) -> None:
        """End what was started for these, with all containers."""
        own = {one.program(name) for one in nodes for name in (_OF_WORKERS if one.is_worker else _RESTARTED)}
        started = [one for one in self.daemons.names() if one in own]
        last = {one.program(name) for one in nodes for name in _LAST}
        for name in [one for one in started if one not in last]:
            self.daemons.stop(name)
        for one in nodes:
            if self.daemons.pid(one.program(_RUNTIME)) is not None:
                Runtime(one, self._toolset).remove_containers()
        for name in [one for one in started if one in last]:
            self.daemons.stop(name)


def _kserve_client(path: str) -> JsonObject:
    return {"service": {"name": _WEBHOOKS, "namespace": _KSERVE, "path": path}}
