"""What routing publishes, consumes and reconciles."""

from typing import Final

from aim_domain import (
    CONFIG_PREDICATES,
    NAMESPACE_CONFIGS_BY_NAMESPACE,
    AIMService,
    DivisibleSettings,
)
from aim_domain.component_names import ROUTE_RECONCILED
from aim_domain.parts import (
    CLUSTER_RUNTIME_CONFIGS,
    GATEWAYS,
    HTTP_ROUTES,
    KAIWO_CONFIGS,
    NAMESPACE_CONFIGS,
    RUNTIME_CONFIGS,
    SERVICES,
)
from aim_routing.conflict import ROUTES_BY_ADDRESS, SERVICES_BY_BACKEND, read_of_others
from aim_routing.reconcile import reconcile
from aim_routing.route import HTTP_ROUTE_READY
from controller_runtime import (
    FACTS,
    Change,
    JsonObject,
    Predicate,
    Reconciler,
    ServiceDefinition,
    StatusOwnership,
    Verb,
    differs,
    to_json,
    writes,
)

_UNREAD_STATUS: Final = ("conditions", "observedGeneration")


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


SETTINGS: Final = DivisibleSettings
"""The class of the settings that `definition` takes."""


def definition(settings: DivisibleSettings) -> ServiceDefinition:
    """The declaration of the routing service."""
    return ServiceDefinition(
        name="routing",
        publishes=(HTTP_ROUTES, GATEWAYS),
        consumes=(
            SERVICES,
            RUNTIME_CONFIGS,
            CLUSTER_RUNTIME_CONFIGS,
            NAMESPACE_CONFIGS,
            KAIWO_CONFIGS,
            HTTP_ROUTES,
            GATEWAYS,
            FACTS,
        ),
        indexes=(
            SERVICES_BY_BACKEND,
            ROUTES_BY_ADDRESS,
            NAMESPACE_CONFIGS_BY_NAMESPACE,
        ),
        predicates=(
            *CONFIG_PREDICATES,
            Predicate(SERVICES, read_of_others),
        ),
        reconcilers=(
            Reconciler(
                controller="routing",
                part=SERVICES,
                reconcile=reconcile,
                status=StatusOwnership(
                    only_fields=frozenset({"routing"}),
                    only_conditions=frozenset({HTTP_ROUTE_READY}),
                    contested=ROUTE_RECONCILED,
                ),
                ignores=_is_irrelevant,
            ),
        ),
        writes=(writes(HTTP_ROUTES, Verb.APPLY, Verb.DELETE),),
        divisible=True,
        shards=settings.shards,
    )
