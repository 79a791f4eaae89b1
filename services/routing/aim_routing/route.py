"""The HTTPRoute of a service (RT-040…RT-057)."""

from datetime import datetime
from typing import Final

from aim_domain import AIMService, HTTPRoute, LabelPropagation, RoutingSettings, child_labels, labels
from aim_domain.kinds import HTTP_ROUTE
from aim_domain.naming import http_route_name, label_value, predictor_name
from aim_domain.parts import HTTP_ROUTES
from aim_routing.address import canonical_hostnames
from controller_runtime import Child, Event, EventType, JsonObject, kind_of, parse_seconds, timestamp, to_json

STREAMS_LIMITED: Final = "StreamsLimited"
LONG_ANSWER_SECONDS: Final = 600
"""A long answer of a slow model takes minutes; a limit below this is worth a warning."""
BACKEND_PORT = 80
"""Port of the Service that KServe makes for the predictor (RT-052)."""


def build_route(
    service: AIMService,
    settings: RoutingSettings,
    path: str,
    propagation: LabelPropagation | None,
    claimed: datetime | None = None,
) -> Child:
    """The complete desired route; settings must be without fault.

    Args:
        claimed: since when the route has its address, where its creation does not state it (RT-211).
    """
    metadata: JsonObject = {
        "name": http_route_name(service.name, service.namespace),
        "namespace": service.namespace,
        "labels": _labels(service, propagation),
    }
    # A user who could write the time of the claim could make it older than others'.
    annotations = {name: text for name, text in settings.annotations if name != labels.ANNOTATION_ADDRESS_CLAIMED}
    if claimed is not None:
        annotations[labels.ANNOTATION_ADDRESS_CLAIMED] = timestamp(claimed)
    if annotations:
        metadata["annotations"] = annotations
    assert settings.gateway is not None
    spec: JsonObject = {"parentRefs": [to_json(settings.gateway)], "rules": [_rule(service, settings, path)]}
    if settings.hostnames:
        spec["hostnames"] = list(canonical_hostnames(settings.hostnames))
    return Child(HTTP_ROUTES, kind_of({"metadata": metadata, "spec": spec}, HTTP_ROUTE))


def stream_event(timeout: str | None, route: HTTPRoute | None) -> Event | None:
    """The event of a new limit that ends streamed answers; none once the route has it (RT-219).

    Args:
        timeout: as a Gateway API duration; ``None`` where the route has none.
        route: as it is stored.
    """
    rule = route.spec.rules[0] if route is not None and route.spec.rules else None
    if rule is not None and (rule.timeouts.request if rule.timeouts else None) == timeout:
        return None
    remedy = "spec.routing.requestTimeout: 0s has none"
    if timeout is None:
        limit = "the gateway's own limit ends requests, streamed answers included (15s with Envoy Gateway)"
        return Event(EventType.NORMAL, STREAMS_LIMITED, f"the route has no requestTimeout: {limit}; {remedy}")
    if not 0 < parse_seconds(timeout) < LONG_ANSWER_SECONDS:
        return None
    message = f"requestTimeout {timeout} ends each request after that time, streamed answers included; {remedy}"
    return Event(EventType.WARNING, STREAMS_LIMITED, message)


def _labels(service: AIMService, propagation: LabelPropagation | None) -> dict[str, str]:
    own = {
        labels.APP_COMPONENT: labels.APP_COMPONENT_ROUTING,
        labels.APP_MANAGED_BY: labels.APP_MANAGED_BY_ENGINE,
        labels.SERVICE: label_value(service.name),
    }
    # Routing acts for the controller of AIMServices (FW-201).
    return child_labels(own, parent=service, controller="service", propagation=propagation)


def _rule(service: AIMService, settings: RoutingSettings, path: str) -> JsonObject:
    rewrite = {"type": "URLRewrite", "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}}
    backend = {
        "kind": "Service",
        "name": predictor_name(settings.inference_service),
        "namespace": service.namespace,
        "port": BACKEND_PORT,
    }
    rule: JsonObject = {
        "matches": [{"path": {"type": "PathPrefix", "value": path}}],
        "filters": [rewrite],
        "backendRefs": [backend],
    }
    if settings.request_timeout is not None:
        rule["timeouts"] = {"request": settings.request_timeout}
    return rule
