"""What is taken from which Go module: the table of everything that a real cluster or a node needs.

Versions stand only in the `go.mod` of the wrapper modules (`deploy/local/assets/<project>`), checksums in their
`go.sum`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

WRAPPERS: Final = Path(__file__).parents[2] / "assets"
"""Folder of the wrapper modules, one per project."""

_REQUIRED: Final = r"^(?:require )?\s*{module} (v\S+)"


class Program(StrEnum):
    """A program, by the name of its file."""

    ETCD = "etcd"
    APISERVER = "kube-apiserver"
    CONTROLLER_MANAGER = "kube-controller-manager"
    SCHEDULER = "kube-scheduler"
    KUBECTL = "kubectl"
    KSERVE = "kserve-manager"
    HELM = "helm"
    COLLECTOR = "otelcol"
    KEDA = "keda-operator"
    KEDA_SCALER = "keda-scaler"
    KEDA_ADAPTER = "keda-adapter"
    KUBELET = "kubelet"
    KUBE_PROXY = "kube-proxy"
    PAUSE = "pause"
    COREDNS = "coredns"
    LOCAL_PATH = "local-path-provisioner"
    TRAEFIK = "traefik"
    KUBE_ROUTER = "kube-router"
    METRICS_SERVER = "metrics-server"
    OTEL_SCALER = "otel-scaler"
    OTEL_OPERATOR = "otel-operator"
    OTEL_SIDECAR = "otel-sidecar"


class Group(StrEnum):
    """Programs that one command builds together; the value is that command."""

    CONTROL_PLANE = "make kube-assets"
    KEDA = "make kube-assets KEDA=1"
    NODE = "make node-assets"


class Definitions(StrEnum):
    """A set of files of a module, by the name of its folder."""

    KSERVE = "kserve-crds"
    KSERVE_WEBHOOKS = "kserve-webhooks"
    KSERVE_CONFIG = "kserve-config"
    GATEWAY = "gateway-crds"
    KEDA = "keda-crds"
    OPENTELEMETRY = "opentelemetry-crds"
    KUBERNETES = "openapi"


@dataclass(frozen=True, slots=True)
class Wrapper:
    """One committed wrapper module.

    Attributes:
        name: its folder.
        module: the module that it wraps; empty where its programs need the standard library alone.
    """

    name: str
    module: str

    @property
    def folder(self) -> Path:
        """Where its go.mod lies."""
        return WRAPPERS / self.name

    @property
    def version(self) -> str:
        """Version of the wrapped module that go.mod pins.

        Raises:
            ValueError: go.mod does not require the module.
        """
        if not self.module:
            return "v0.0.0"
        text = (self.folder / "go.mod").read_text(encoding="utf-8")
        found = re.search(_REQUIRED.format(module=re.escape(self.module)), text, re.MULTILINE)
        if found is None:
            raise ValueError(f"{self.folder / 'go.mod'} does not require {self.module}; add the requirement")
        return found[1]


KUBERNETES: Final = Wrapper("kubernetes", "k8s.io/kubernetes")
ETCD: Final = Wrapper("etcd", "go.etcd.io/etcd/server/v3")
KSERVE: Final = Wrapper("kserve", "github.com/kserve/kserve")
HELM: Final = Wrapper("helm", "helm.sh/helm/v3")
KEDA: Final = Wrapper("keda", "github.com/kedacore/keda/v2")
COLLECTOR: Final = Wrapper("otelcol", "go.opentelemetry.io/collector/otelcol")
GATEWAY: Final = Wrapper("gateway-api", "sigs.k8s.io/gateway-api")
COREDNS: Final = Wrapper("coredns", "github.com/coredns/coredns")
LOCAL_PATH: Final = Wrapper("local-path", "github.com/rancher/local-path-provisioner")
TRAEFIK: Final = Wrapper("traefik", "github.com/traefik/traefik/v3")
LEGO: Final = Wrapper("lego", "github.com/go-acme/lego/v5")
KUBE_ROUTER: Final = Wrapper("kube-router", "github.com/cloudnativelabs/kube-router/v2")
METRICS_SERVER: Final = Wrapper("metrics-server", "sigs.k8s.io/metrics-server")
PAUSE: Final = Wrapper("pause", "")
OTEL_SCALER: Final = Wrapper("otel-scaler", "github.com/kedacore/keda/v2")
OTEL_OPERATOR: Final = Wrapper("otel-operator", "github.com/open-telemetry/opentelemetry-operator")
OTEL_SIDECAR: Final = Wrapper("otel-sidecar", "go.opentelemetry.io/collector/otelcol")


@dataclass(frozen=True, slots=True)
class Cut:
    """A copy of a module without one folder's content, which a wrapper replaces the module by.

    Attributes:
        wrapper: pins the module.
        folder: name of the copy beside the wrapper's go.mod, as its `replace` line gives it.
        emptied: folder of the module that is emptied, but for what `kept` names.
        kept: name in the emptied folder.
        filled: folder of the wrapper whose files take the emptied folder's place.
    """

    wrapper: Wrapper
    folder: str
    emptied: str
    kept: str
    filled: str


CUTS: Final[Mapping[str, Cut]] = {TRAEFIK.name: Cut(LEGO, "lego", "providers/dns", "internal", "dns")}
"""By name of the wrapper that needs it."""


@dataclass(frozen=True, slots=True)
class ProgramRecipe:
    """How a program is built.

    Attributes:
        wrapper: the module whose go.mod decides the versions.
        package: what is built.
        stamps: variables set at link time; ``{version}``, ``{major}`` and ``{minor}`` are those of the wrapped module.
        group: which command builds it.
    """

    wrapper: Wrapper
    package: str
    stamps: Mapping[str, str] = field(default_factory=dict)
    group: Group = Group.CONTROL_PLANE

    @property
    def output(self) -> str:
        """Name that `go build` gives the program in a folder."""
        named = self.package if self.package != "." else f"assets/{self.wrapper.name}"
        return named.rpartition("/")[2]


def linker_flags(recipes: Iterable[ProgramRecipe]) -> str:
    """Value for `go build -ldflags` of programs of one wrapper: no debug tables, and their stamps."""
    values = {name: _stamp(text, recipe.wrapper) for recipe in recipes for name, text in recipe.stamps.items()}
    return " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in values.items())])


def _stamp(text: str, wrapper: Wrapper) -> str:
    number = wrapper.version.lstrip("v")
    major, minor, *_ = number.split(".")
    return text.format(version=wrapper.version, number=number, major=major, minor=minor)


@dataclass(frozen=True, slots=True)
class DefinitionsRecipe:
    """Which files of a module are copied: those that match ``pattern`` under its folder."""

    wrapper: Wrapper
    pattern: str


_KUBERNETES_STAMPS: Final = {
    "k8s.io/component-base/version.gitVersion": "{version}",
    "k8s.io/component-base/version.gitMajor": "{major}",
    "k8s.io/component-base/version.gitMinor": "{minor}",
    "k8s.io/client-go/pkg/version.gitVersion": "{version}",
}
"""Without them every client sees version v0.0.0."""


_KEDA_STAMPS: Final = {"github.com/kedacore/keda/v2/version.Version": "{number}"}
"""KEDA's releases stamp the number alone; its operator writes it into a label of each autoscaler."""


def _kubernetes(command: str, group: Group = Group.CONTROL_PLANE) -> ProgramRecipe:
    return ProgramRecipe(KUBERNETES, f"k8s.io/kubernetes/cmd/{command}", _KUBERNETES_STAMPS, group)


def _keda(command: str, group: Group) -> ProgramRecipe:
    return ProgramRecipe(KEDA, f"github.com/kedacore/keda/v2/cmd/{command}", _KEDA_STAMPS, group)


def _of_node(wrapper: Wrapper, command: str = "") -> ProgramRecipe:
    return ProgramRecipe(wrapper, f"{wrapper.module}{command}", group=Group.NODE)


PROGRAMS: Final[Mapping[Program, ProgramRecipe]] = {
    Program.ETCD: ProgramRecipe(ETCD, "."),
    Program.APISERVER: _kubernetes("kube-apiserver"),
    Program.CONTROLLER_MANAGER: _kubernetes("kube-controller-manager"),
    Program.SCHEDULER: _kubernetes("kube-scheduler"),
    Program.KUBECTL: _kubernetes("kubectl"),
    Program.KSERVE: ProgramRecipe(KSERVE, "github.com/kserve/kserve/cmd/manager"),
    Program.HELM: ProgramRecipe(
        HELM, "helm.sh/helm/v3/cmd/helm", {"helm.sh/helm/v3/internal/version.version": "{version}"}
    ),
    Program.KUBELET: _kubernetes("kubelet", Group.NODE),
    Program.KUBE_PROXY: _kubernetes("kube-proxy", Group.NODE),
    Program.PAUSE: ProgramRecipe(PAUSE, ".", group=Group.NODE),
    Program.COREDNS: ProgramRecipe(COREDNS, ".", group=Group.NODE),
    Program.LOCAL_PATH: _of_node(LOCAL_PATH),
    Program.TRAEFIK: ProgramRecipe(
        TRAEFIK,
        f"{TRAEFIK.module}/cmd/traefik",
        {"github.com/traefik/traefik/v3/pkg/version.Version": "{version}"},
        Group.NODE,
    ),
    Program.KUBE_ROUTER: _of_node(KUBE_ROUTER, "/cmd/kube-router"),
    Program.COLLECTOR: ProgramRecipe(COLLECTOR, "."),
    Program.METRICS_SERVER: _of_node(METRICS_SERVER, "/cmd/metrics-server"),
    Program.OTEL_SCALER: ProgramRecipe(OTEL_SCALER, ".", group=Group.NODE),
    Program.OTEL_OPERATOR: ProgramRecipe(
        OTEL_OPERATOR,
        OTEL_OPERATOR.module,
        {f"{OTEL_OPERATOR.module}/internal/version.{name}": "{version}" for name in ("version", "otelCol")},
        Group.NODE,
    ),
    Program.OTEL_SIDECAR: ProgramRecipe(OTEL_SIDECAR, ".", group=Group.NODE),
    Program.KEDA: _keda("operator", Group.KEDA),
    Program.KEDA_SCALER: ProgramRecipe(KEDA, ".", group=Group.KEDA),
    Program.KEDA_ADAPTER: _keda("adapter", Group.NODE),
}
"""In the order in which they are built: what others wait for comes first."""

DEFINITIONS: Final[Mapping[Definitions, DefinitionsRecipe]] = {
    Definitions.KSERVE: DefinitionsRecipe(KSERVE, "config/crd/full/serving.kserve.io_*.yaml"),
    Definitions.KSERVE_WEBHOOKS: DefinitionsRecipe(KSERVE, "config/webhook/manifests.yaml"),
    Definitions.KSERVE_CONFIG: DefinitionsRecipe(KSERVE, "config/configmap/inferenceservice.yaml"),
    Definitions.GATEWAY: DefinitionsRecipe(GATEWAY, "config/crd/standard/*.yaml"),
    Definitions.KEDA: DefinitionsRecipe(KEDA, "config/crd/bases/*.yaml"),
    Definitions.OPENTELEMETRY: DefinitionsRecipe(OTEL_OPERATOR, "config/crd/bases/*.yaml"),
    Definitions.KUBERNETES: DefinitionsRecipe(KUBERNETES, "api/openapi-spec/v3/*_openapi.json"),
}

KUBEBUILDER: Final = frozenset({Program.ETCD, Program.APISERVER, Program.KUBECTL})
"""What a folder in the variable `KUBEBUILDER_ASSETS` holds."""
