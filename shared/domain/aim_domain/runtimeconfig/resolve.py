"""Finding the runtime config of a consumer (RC-020…RC-027) and saying so (RC-060…RC-068)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aim_domain.api.aim_shapes import ResolvedReference
from aim_domain.api.enums import API_VERSION, ResolutionScope
from aim_domain.api.older_configs import AIMNamespaceConfig, KaiwoConfig, NamespaceConfigSpec, NamespaceCredentials
from aim_domain.api.runtime_config import AIMClusterRuntimeConfig, AIMRuntimeConfig, RuntimeConfigSpec
from aim_domain.component_names import ComponentName
from aim_domain.parts import CLUSTER_RUNTIME_CONFIGS, KAIWO_CONFIGS, RUNTIME_CONFIGS
from aim_domain.runtimeconfig import older
from aim_domain.runtimeconfig.merge import merge_env, merge_specs
from aim_domain.runtimeconfig.older import PodDefaults
from controller_runtime import (
    Category,
    ClassifiedError,
    Component,
    Dependency,
    JsonObject,
    Lookup,
    Predicate,
    State,
    View,
    to_json,
)
from controller_runtime.core import EnvVar

DEFAULT_NAME: Final = "default"
_NO_CREDENTIALS: Final = NamespaceCredentials()
_NO_DEFAULTS: Final = PodDefaults()


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """The merged config of one consumer.

    Attributes:
        spec: effective values; empty when nothing was found.
        reference: for ``status.resolvedRuntimeConfig``; ``None`` when no config applies (RC-067).
        error: why there is none, as an error of the consumer's input.
        credentials: of the namespace, each for its own host (RC-152).
        pull_secrets: names of the namespace's Secrets for pulling images (RC-153).
        pods: what KaiwoConfig says of serving pods (RC-155).
        older_kinds: configurations of older kinds that take part, for people.
    """

    name: str
    spec: RuntimeConfigSpec
    reference: ResolvedReference | None = None
    error: ClassifiedError | None = None
    credentials: NamespaceCredentials = _NO_CREDENTIALS
    pull_secrets: tuple[str, ...] = ()
    pods: PodDefaults = _NO_DEFAULTS
    older_kinds: tuple[str, ...] = ()

    def spec_for(self, sources: Iterable[str], own: Iterable[EnvVar] = ()) -> RuntimeConfigSpec:
        """The effective values for a consumer that loads weights from some sources.

        Args:
            sources: URIs of the weights; only for their hosts there are credentials.
            own: variables of the consumer, which win over the config's.
        """
        env = self.credentials_for(sources, (*self.spec.env, *own))
        return self.spec.model_copy(update={"env": merge_env(env, self.spec.env)}) if env else self.spec

    def credentials_for(self, sources: Iterable[str], explicit: Iterable[EnvVar]) -> tuple[EnvVar, ...]:
        """The namespace's credentials for the hosts of some sources, below the variables that are set explicitly."""
        return older.credential_env(self.credentials, sources, explicit)

    def component(self, *, found: str = "ConfigFound", missing: str = "ReferenceNotFound") -> Component:
        """Component ``RuntimeConfig`` with the reasons of RC-061, which differ by kind."""
        name = ComponentName.RUNTIME_CONFIG
        if self.error is not None:
            is_missing = self.error.category is Category.MISSING_UPSTREAM
            reason = missing if is_missing else self.error.reason
            return Component(name, reason=reason, errors=(self.error,), dependency=Dependency.UPSTREAM)
        if self.reference is None:
            applying = " and ".join((*self.older_kinds, "built-in defaults"))
            message = f"No runtime config named default exists; {applying} apply"
            return Component(name, State.READY, "DefaultConfigNotFound", message, dependency=Dependency.UPSTREAM)
        where = f"{self.reference.namespace}/" if self.reference.namespace else ""
        message = f"Using runtime config {where}{self.name} (scope {self.reference.scope})"
        return Component(name, State.READY, found, message, dependency=Dependency.UPSTREAM)

    def reference_json(self, stored: ResolvedReference | None) -> JsonObject | None:
        """``status.resolvedRuntimeConfig``: what was stored stays while it is unknown what applies (RC-067)."""
        unknown = self.error is not None and self.error.category is not Category.MISSING_UPSTREAM
        reference = stored if unknown else self.reference
        return None if reference is None else to_json(reference)


def effective_name(name: str | None) -> str:
    """The config name a consumer follows; empty and absent mean ``default`` (RC-020)."""
    return name or DEFAULT_NAME


def _settings_of(config: AIMRuntimeConfig | AIMClusterRuntimeConfig) -> object:
    """What the followers of a config look at; its status has none."""
    return config.spec


CONFIG_PREDICATES: Final = (
    Predicate(RUNTIME_CONFIGS, _settings_of),
    Predicate(CLUSTER_RUNTIME_CONFIGS, _settings_of),
    *older.OLDER_CONFIG_PREDICATES,
)
"""For every service that resolves runtime configs."""


def resolve_config(view: View, namespace: str | None, name: str | None) -> ResolvedConfig:
    """Look up and merge all levels; a cluster-scoped consumer (no namespace) sees the cluster's runtime config only."""
    wanted = effective_name(name)
    cluster = view.get(CLUSTER_RUNTIME_CONFIGS, None, wanted)
    local: Lookup[AIMRuntimeConfig] = view.get(RUNTIME_CONFIGS, namespace, wanted) if namespace else Lookup()
    below = _older(view, namespace) if namespace else _Older()
    error = cluster.error or local.error or below.error
    if error is None and cluster.value is None and local.value is None and wanted != DEFAULT_NAME:
        error = _missing(wanted, namespace)
    if error is not None:
        return ResolvedConfig(wanted, RuntimeConfigSpec(), error=error)
    spec = merge_specs(
        older.of_kaiwo(below.kaiwo),
        cluster.value.spec if cluster.value else None,
        older.of_namespace(below.namespace),
        local.value.spec if local.value else None,
    )
    own = below.namespace.spec if below.namespace else NamespaceConfigSpec()
    return ResolvedConfig(
        wanted,
        spec,
        _reference(cluster.value, local.value),
        credentials=own.credentials or _NO_CREDENTIALS,
        pull_secrets=tuple(own.images.image_pull_secrets) if own.images else (),
        pods=older.pod_defaults(below.kaiwo),
        older_kinds=tuple(f"{one.kind} {one.name}" for one in (below.namespace, below.kaiwo) if one is not None),
    )


@dataclass(frozen=True, slots=True)
class _Older:
    """Configurations of older kinds that a namespaced consumer follows (RC-151)."""

    kaiwo: KaiwoConfig | None = None
    namespace: AIMNamespaceConfig | None = None
    error: ClassifiedError | None = None


def _older(view: View, namespace: str) -> _Older:
    kaiwo = view.all(KAIWO_CONFIGS)
    local = view.select(older.NAMESPACE_CONFIGS_BY_NAMESPACE, namespace)
    return _Older(older.oldest_config(kaiwo.items), older.oldest_config(local.items), kaiwo.error or local.error)


def _missing(name: str, namespace: str | None) -> ClassifiedError:
    where = f"AIMRuntimeConfig {namespace}/{name} nor " if namespace else ""
    return ClassifiedError(
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
