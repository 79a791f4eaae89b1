"""Finding the runtime config of a consumer (RC-020…RC-027) and saying so (RC-060…RC-068)."""

from dataclasses import dataclass
from typing import Final

from aim_domain.api.aim_shapes import ResolvedReference
from aim_domain.api.cluster_runtime_config import AIMClusterRuntimeConfig
from aim_domain.api.enums import ResolutionScope
from aim_domain.api.group import API_VERSION
from aim_domain.api.runtime_config import AIMRuntimeConfig, RuntimeConfigSpec
from aim_domain.component_names import ComponentName
from aim_domain.parts import CLUSTER_RUNTIME_CONFIGS, RUNTIME_CONFIGS
from aim_domain.runtimeconfig.merge import merge_specs
from controller_runtime import AimError, Category, Component, Dependency, JsonObject, Lookup, State, View, to_json

DEFAULT_NAME: Final = "default"


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """The merged config of one consumer.

    Attributes:
        spec: effective values; empty when nothing was found.
        reference: for ``status.resolvedRuntimeConfig``; ``None`` when no config applies (RC-067).
        error: why there is none, as an error of the consumer's input.
    """

    name: str
    spec: RuntimeConfigSpec
    reference: ResolvedReference | None = None
    error: AimError | None = None

    def component(self, *, found: str = "ConfigFound", missing: str = "ReferenceNotFound") -> Component:
        """Component ``RuntimeConfig`` with the reasons of RC-061, which differ by kind."""
        name = ComponentName.RUNTIME_CONFIG
        if self.error is not None:
            is_missing = self.error.category is Category.MISSING_UPSTREAM
            reason = missing if is_missing else self.error.reason
            return Component(name, reason=reason, errors=(self.error,), dependency=Dependency.UPSTREAM)
        if self.reference is None:
            message = "No runtime config named default exists; built-in defaults apply"
            return Component(name, State.READY, "DefaultConfigNotFound", message, dependency=Dependency.UPSTREAM)
        where = f"{self.reference.namespace}/" if self.reference.namespace else ""
        message = f"Using runtime config {where}{self.name} (scope {self.reference.scope})"
        return Component(name, State.READY, found, message, dependency=Dependency.UPSTREAM)

    def reference_json(self, stored: ResolvedReference | None) -> JsonObject | None:
        """``status.resolvedRuntimeConfig``: what was stored stays while nobody can tell what applies (RC-067)."""
        unknown = self.error is not None and self.error.category is not Category.MISSING_UPSTREAM
        reference = stored if unknown else self.reference
        return None if reference is None else to_json(reference)


def effective_name(name: str | None) -> str:
    """The config name a consumer follows; empty and absent mean ``default`` (RC-020)."""
    return name or DEFAULT_NAME


def shown_of_config(config: AIMRuntimeConfig | AIMClusterRuntimeConfig) -> object:
    """What those who follow a config look at; nobody follows its status."""
    return config.spec


def resolve_config(view: View, namespace: str | None, name: str | None) -> ResolvedConfig:
    """Look up and merge both levels; a cluster-scoped consumer (no namespace) sees the cluster level only."""
    wanted = effective_name(name)
    cluster = view.get(CLUSTER_RUNTIME_CONFIGS, None, wanted)
    local: Lookup[AIMRuntimeConfig] = view.get(RUNTIME_CONFIGS, namespace, wanted) if namespace else Lookup()
    error = cluster.error or local.error
    if error is None and cluster.value is None and local.value is None and wanted != DEFAULT_NAME:
        error = _missing(wanted, namespace)
    if error is not None:
        return ResolvedConfig(wanted, RuntimeConfigSpec(), error=error)
    spec = merge_specs(cluster.value.spec if cluster.value else None, local.value.spec if local.value else None)
    return ResolvedConfig(wanted, spec, _reference(cluster.value, local.value))


def _missing(name: str, namespace: str | None) -> AimError:
    where = f"AIMRuntimeConfig {namespace}/{name} nor " if namespace else ""
    return AimError(
        Category.MISSING_UPSTREAM,
        "ReferenceNotFound",
        f"neither {where}AIMClusterRuntimeConfig {name} exists; create one or correct runtimeConfigName"
        if namespace
        else f"AIMClusterRuntimeConfig {name} does not exist; create it or correct runtimeConfigName",
    )


def _reference(cluster: AIMClusterRuntimeConfig | None, local: AIMRuntimeConfig | None) -> ResolvedReference | None:
    chosen = local or cluster
    if chosen is None:
        return None
    if local is not None:
        scope = ResolutionScope.MERGED if cluster else ResolutionScope.NAMESPACE
        return ResolvedReference(
            name=local.name,
            namespace=local.namespace,
            kind=f"{API_VERSION}/AIMRuntimeConfig",
            uid=local.uid,
            scope=scope,
        )
    return ResolvedReference(
        name=chosen.name, kind=f"{API_VERSION}/AIMClusterRuntimeConfig", uid=chosen.uid, scope=ResolutionScope.CLUSTER
    )
