"""What routing publishes, consumes and reconciles."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from aim_routing.acceptance import HTTP_ROUTE_READY
from aim_routing.backend_name import SERVICES_BY_BACKEND, namesakes_of
from aim_routing.conflict import ROUTES_BY_ADDRESS
from aim_routing.reconcile import reconcile
from aim_shared.api import AIMClusterRuntimeConfig, AIMRuntimeConfig, AIMService, HTTPRoute, to_json
from aim_shared.bus.entry import Change
from aim_shared.bus.part import Index, Key, scoped
from aim_shared.bus.parts import CLUSTER_RUNTIME_CONFIGS, FACTS, HTTP_ROUTES, RUNTIME_CONFIGS, SERVICES
from aim_shared.bus.view import View
from aim_shared.json import JsonObject
from aim_shared.kube.client import KubeClient
from aim_shared.naming import http_route_name
from aim_shared.reconcile.changes import differs
from aim_shared.reconcile.reconciler import EffectRunner, Reconciler, ServiceDefinition, StatusOwnership, WakeBy
from aim_shared.runtime.settings import Settings
from aim_shared.runtimeconfig.changes import is_significant
from aim_shared.runtimeconfig.resolve import effective_name

SERVICES_BY_CONFIG: Final = Index(
    SERVICES, "config", lambda service: [effective_name(service.spec.runtime_config_name)]
)
SERVICES_BY_LOCAL_CONFIG: Final = Index(
    SERVICES,
    "local-config",
    lambda service: [scoped(service.namespace, effective_name(service.spec.runtime_config_name))],
)
SERVICES_BY_ROUTE: Final = Index(
    SERVICES, "route", lambda service: [scoped(service.namespace, http_route_name(service.name, service.namespace))]
)

_UNREAD_STATUS: Final = ("conditions", "observedGeneration")


def _owner(change: Change[HTTPRoute], view: View) -> Iterable[Key]:
    """The owner; and whoever needs the name, when it becomes free or taken (RT-184)."""
    owners = change.either.metadata.owner_references if change.either is not None else ()
    keys = [Key(change.key.namespace, owner.name) for owner in owners if owner.kind == "AIMService"]
    if not differs(change, lambda route: route.metadata.owner_references):
        return keys
    needing = view.select(SERVICES_BY_ROUTE, scoped(change.key.namespace, change.key.name)).items
    return [*keys, *(service.key for service in needing)]


def _users_of_config(change: Change[AIMRuntimeConfig], view: View) -> Iterable[Key]:
    found = view.select(SERVICES_BY_LOCAL_CONFIG, scoped(change.key.namespace, change.key.name))
    return [service.key for service in found.items] if is_significant(change) else []


def _users_of_cluster_config(change: Change[AIMClusterRuntimeConfig], view: View) -> Iterable[Key]:
    found = view.select(SERVICES_BY_CONFIG, change.key.name)
    return [service.key for service in found.items] if is_significant(change) else []


def _is_irrelevant(change: Change[AIMService]) -> bool:
    """Most status changes of serving do not concern the route (FW-378)."""
    return not differs(change, _read_part)


def _read_part(service: AIMService) -> JsonObject:
    status = to_json(service.status)
    own = [one for one in status.get("conditions") or [] if one["type"] == HTTP_ROUTE_READY]
    metadata = service.metadata
    return {
        "identity": (service.uid, metadata.generation, metadata.deletion_timestamp),
        "labels": metadata.labels,
        "annotations": metadata.annotations,
        "status": {name: value for name, value in status.items() if name not in _UNREAD_STATUS},
        "condition": own,
    }


def definition(_: Settings) -> ServiceDefinition:
    """The declaration of the routing service."""
    return ServiceDefinition(
        name="routing",
        publishes=(HTTP_ROUTES,),
        consumes=(SERVICES, RUNTIME_CONFIGS, CLUSTER_RUNTIME_CONFIGS, HTTP_ROUTES, FACTS),
        indexes=(
            SERVICES_BY_CONFIG,
            SERVICES_BY_LOCAL_CONFIG,
            SERVICES_BY_ROUTE,
            SERVICES_BY_BACKEND,
            ROUTES_BY_ADDRESS,
        ),
        reconcilers=(
            Reconciler(
                controller="routing",
                part=SERVICES,
                reconcile=reconcile,
                wakes=(
                    WakeBy(HTTP_ROUTES, _owner),
                    WakeBy(SERVICES, namesakes_of),
                    WakeBy(RUNTIME_CONFIGS, _users_of_config),
                    WakeBy(CLUSTER_RUNTIME_CONFIGS, _users_of_cluster_config),
                ),
                status=StatusOwnership(
                    only_fields=frozenset({"routing"}), only_conditions=frozenset({HTTP_ROUTE_READY})
                ),
                ignores=_is_irrelevant,
            ),
        ),
    )


@asynccontextmanager
async def effect_runners(_settings: Settings, _kube: KubeClient) -> AsyncIterator[Mapping[str, EffectRunner]]:
    """Routing needs no I/O of its own."""
    yield {}
