"""What is taken from which Go module: the table of everything that a real cluster needs.

Versions stand only in the `go.mod` of the wrapper modules (`deploy/local/assets/<project>`), checksums in their
`go.sum`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
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


class Definitions(StrEnum):
    """A set of files of a module, by the name of its folder."""

    KSERVE = "kserve-crds"
    KSERVE_WEBHOOKS = "kserve-webhooks"
    KSERVE_CONFIG = "kserve-config"
    GATEWAY = "gateway-crds"
    KEDA = "keda-crds"
    KUBERNETES = "openapi"


@dataclass(frozen=True, slots=True)
class Wrapper:
    """One committed wrapper module.

    Attributes:
        name: its folder.
        module: the module that it wraps.
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


@dataclass(frozen=True, slots=True)
class ProgramRecipe:
    """How a program is built.

    Attributes:
        wrapper: the module whose go.mod decides the versions.
        package: what is built.
        stamps: variables set at link time; ``{version}``, ``{major}`` and ``{minor}`` are those of the wrapped module.
        optional: built only on request.
    """

    wrapper: Wrapper
    package: str
    stamps: Mapping[str, str]
    optional: bool = False

    @property
    def linker_flags(self) -> str:
        """Value for `go build -ldflags`: no debug tables, and the stamps."""
        version = self.wrapper.version
        major, minor, *_ = version.lstrip("v").split(".")
        values = {name: text.format(version=version, major=major, minor=minor) for name, text in self.stamps.items()}
        return " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in values.items())])


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


def _kubernetes(command: str) -> ProgramRecipe:
    return ProgramRecipe(KUBERNETES, f"k8s.io/kubernetes/cmd/{command}", _KUBERNETES_STAMPS)


PROGRAMS: Final[Mapping[Program, ProgramRecipe]] = {
    Program.ETCD: ProgramRecipe(ETCD, ".", {}),
    Program.APISERVER: _kubernetes("kube-apiserver"),
    Program.CONTROLLER_MANAGER: _kubernetes("kube-controller-manager"),
    Program.SCHEDULER: _kubernetes("kube-scheduler"),
    Program.KUBECTL: _kubernetes("kubectl"),
    Program.KSERVE: ProgramRecipe(KSERVE, "github.com/kserve/kserve/cmd/manager", {}),
    Program.HELM: ProgramRecipe(
        HELM, "helm.sh/helm/v3/cmd/helm", {"helm.sh/helm/v3/internal/version.version": "{version}"}
    ),
    Program.COLLECTOR: ProgramRecipe(COLLECTOR, ".", {}),
    Program.KEDA: ProgramRecipe(
        KEDA,
        "github.com/kedacore/keda/v2/cmd/operator",
        {"github.com/kedacore/keda/v2/version.Version": "{version}"},
        optional=True,
    ),
    Program.KEDA_SCALER: ProgramRecipe(KEDA, ".", {}, optional=True),
}
"""In the order in which they are built: what others wait for comes first."""

DEFINITIONS: Final[Mapping[Definitions, DefinitionsRecipe]] = {
    Definitions.KSERVE: DefinitionsRecipe(KSERVE, "config/crd/full/serving.kserve.io_*.yaml"),
    Definitions.KSERVE_WEBHOOKS: DefinitionsRecipe(KSERVE, "config/webhook/manifests.yaml"),
    Definitions.KSERVE_CONFIG: DefinitionsRecipe(KSERVE, "config/configmap/inferenceservice.yaml"),
    Definitions.GATEWAY: DefinitionsRecipe(GATEWAY, "config/crd/standard/*.yaml"),
    Definitions.KEDA: DefinitionsRecipe(KEDA, "config/crd/bases/*.yaml"),
    Definitions.KUBERNETES: DefinitionsRecipe(KUBERNETES, "api/openapi-spec/v3/*_openapi.json"),
}

KUBEBUILDER: Final = frozenset({Program.ETCD, Program.APISERVER, Program.KUBECTL})
"""What a folder in the variable `KUBEBUILDER_ASSETS` holds."""
