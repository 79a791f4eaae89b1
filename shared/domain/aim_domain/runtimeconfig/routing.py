"""The configuration part of routing, resolved alike by routing and serving (FW-376, RT-001…RT-029, RT-130…RT-134)."""

from dataclasses import dataclass
from typing import Final

from aim_domain.api.aim_shapes import Routing
from aim_domain.api.enums import NamespaceOwnership
from aim_domain.api.gateway_api import ParentReference
from aim_domain.api.runtime_config import AIMClusterRuntimeConfig, AIMRuntimeConfig, RuntimeConfigSpec
from aim_domain.api.service import AIMService
from aim_domain.naming import NamingError, inference_service_name
from aim_domain.parts import CLUSTER_RUNTIME_CONFIGS, RUNTIME_CONFIGS
from aim_domain.runtimeconfig.resolve import effective_name
from controller_runtime import Category, ClassifiedError, DurationError, View, parse_nanoseconds

GATEWAY_NOT_CONFIGURED: Final = "GatewayNotConfigured"
INVALID_SPEC: Final = "InvalidSpec"

_MILLISECOND: Final = 1_000_000
_UNITS: Final = (("h", 3_600_000), ("m", 60_000), ("s", 1000))
_LONGEST_HOURS: Final = 99_999


@dataclass(frozen=True, slots=True)
class RoutingSettings:
    """What the route of a service is made from.

    Attributes:
        enabled: whether there shall be a route at all.
        gateway: the parent, as a whole from one level (RT-022, RT-023).
        hostnames: as a whole from one level; empty for all (RT-058).
        path_template: ``None`` or empty stands for the default path (RT-071).
        request_timeout: Gateway API duration, ``None`` = no timeout.
        annotations: of the route.
        inference_service: name of the backend's InferenceService; empty when it cannot be derived.
        fault: an error of the service's input, for routing and serving alike (RT-027, RT-054, RT-134).
    """

    enabled: bool
    gateway: ParentReference | None = None
    hostnames: tuple[str, ...] = ()
    path_template: str | None = None
    request_timeout: str | None = None
    annotations: tuple[tuple[str, str], ...] = ()
    inference_service: str = ""
    fault: ClassifiedError | None = None


def routing_settings(service: AIMService, config: RuntimeConfigSpec) -> RoutingSettings:
    """Resolve each routing field of its own: the service's value when present, else the config's (RT-006)."""
    own, base = service.spec.routing or Routing(), config.routing or Routing()
    enabled = own.enabled if own.enabled is not None else bool(base.enabled)
    if not enabled:
        return RoutingSettings(enabled=False)
    gateway = own.gateway_ref or base.gateway_ref
    timeout, bad_timeout = _timeout(own.request_timeout, base.request_timeout)
    backend, bad_name = _backend(service)
    return RoutingSettings(
        enabled=True,
        gateway=gateway,
        hostnames=tuple((own.hostnames if own.hostnames is not None else base.hostnames) or ()),
        path_template=own.path_template if own.path_template is not None else base.path_template,
        request_timeout=timeout,
        annotations=tuple(sorted({**base.annotations, **own.annotations}.items())),
        inference_service=backend,
        fault=(None if gateway else _NO_GATEWAY) or bad_timeout or bad_name,
    )


def spans_namespaces(view: View, service: AIMService) -> bool:
    """Whether the cluster config that the service follows lets its path overlap with other namespaces' (RT-126)."""
    found = view.get(CLUSTER_RUNTIME_CONFIGS, None, effective_name(service.spec.runtime_config_name)).value
    routing = found.spec.routing if found is not None else None
    return routing is not None and routing.namespace_ownership is NamespaceOwnership.INTER_NAMESPACE_ALLOWED


def disabled_by(view: View, service: AIMService) -> str:
    """Why no runtime config enables routing for the service; empty where the service states itself that it is off."""
    if service.spec.routing is not None and service.spec.routing.enabled is not None:
        return ""
    name = effective_name(service.spec.runtime_config_name)
    local = view.get(RUNTIME_CONFIGS, service.namespace, name).value
    cluster = view.get(CLUSTER_RUNTIME_CONFIGS, None, name).value
    levels: tuple[tuple[str, AIMRuntimeConfig | AIMClusterRuntimeConfig | None], ...] = (
        (f"AIMRuntimeConfig {service.namespace}/{name}", local),
        (f"AIMClusterRuntimeConfig {name}", cluster),
    )
    for what, config in levels:
        if config is not None and config.spec.routing is not None and config.spec.routing.enabled is False:
            return f"{what} disables routing"
    existing = [what for what, config in levels if config is not None]
    if not existing:
        return f"no runtime config {name}, which enabled routing, exists"
    return (
        f"neither {' nor '.join(existing)} enables routing"
        if existing[1:]
        else f"{existing[0]} does not enable routing"
    )


_NO_GATEWAY: Final = ClassifiedError(
    Category.INVALID_SPEC,
    GATEWAY_NOT_CONFIGURED,
    "routing is enabled, but no gateway is configured; set spec.routing.gatewayRef on the AIMService "
    "or on its runtime config",
)


def _backend(service: AIMService) -> tuple[str, ClassifiedError | None]:
    try:
        return inference_service_name(service.name, service.namespace), None
    except NamingError as error:
        return "", ClassifiedError(Category.INVALID_SPEC, INVALID_SPEC, str(error))


def _timeout(own: str | None, base: str | None) -> tuple[str | None, ClassifiedError | None]:
    text, where = (own, "") if own is not None else (base, " of its runtime config")
    if text is None:
        return None, None
    try:
        return gateway_duration(text), None
    except DurationError as error:
        message = f"spec.routing.requestTimeout{where}: {error}"
        return None, ClassifiedError(Category.INVALID_SPEC, INVALID_SPEC, message)


def gateway_duration(text: str) -> str:
    """A Go-style duration as a Gateway API duration (RT-132, RT-133).

    >>> gateway_duration("180s"), gateway_duration("1.5s"), gateway_duration("1h"), gateway_duration("0s")
    ('3m0s', '1s500ms', '1h0m0s', '0s')

    Raises:
        DurationError: unparsable, negative, above 99999h or not zero and below 1 ms.
    """
    nanoseconds = parse_nanoseconds(text)
    milliseconds, finer = divmod(nanoseconds, _MILLISECOND)
    if nanoseconds < 0 or (milliseconds == 0 and finer):
        raise DurationError(f"{text!r} is negative or shorter than 1ms; a timeout is 0s or at least 1ms")
    parts: list[str] = []
    rest = milliseconds
    for unit, length in _UNITS:
        amount, rest = divmod(rest, length)
        if unit == "h" and amount > _LONGEST_HOURS:
            raise DurationError(f"{text!r} is longer than {_LONGEST_HOURS}h, the longest that Gateway API allows")
        if amount or parts or (unit == "s" and not rest):
            parts.append(f"{amount}{unit}")
    return "".join([*parts, f"{rest}ms"] if rest else parts)
