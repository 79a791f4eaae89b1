"""Addresses that administrators keep for namespaces, and roots, which are theirs to give (RT-214…RT-217).

Every AIMClusterRuntimeConfig counts, not only the one that a service follows: its owner chooses that one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

from aim_domain import AIMClusterRuntimeConfig, AIMService
from aim_domain.parts import CLUSTER_RUNTIME_CONFIGS
from aim_domain.path_template import PathTemplateError
from aim_routing.address import ANY_HOST, Address
from aim_routing.path import normalise
from aim_routing.route import broken
from controller_runtime import ClassifiedError, Component, View

PATH_RESERVED: Final = "PathReserved"
ROOT: Final = "/"


@dataclass(frozen=True, slots=True)
class Limits:
    """What administrators state of an address.

    Attributes:
        refusal: why the service gets no route there.
        error: why this is not known.
    """

    refusal: Component | None = None
    error: ClassifiedError | None = None


NO_LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True)
class Area:
    """One host and one path of a reservation, with all that lies below both."""

    config: str
    namespaces: tuple[str, ...]
    host: str
    path: str

    @property
    def rank(self) -> tuple[int, int, int]:
        """How special it is, as gateways rank routes: by host, then by path."""
        labels = 0 if self.host == ANY_HOST else self.host.count(".") + 1
        return (labels, not self.host.startswith("*."), len(self.path.rstrip(ROOT)))


def limits_of(view: View, service: AIMService, address: Address, template: str | None) -> Limits:
    """Whether the namespace of a service may have an address (RT-214, RT-215)."""
    configs = view.all(CLUSTER_RUNTIME_CONFIGS)
    areas = tuple(area for config in configs.items for area in areas_of(config))
    for one in address.by_host():
        area = reserving(areas, one, service.namespace)
        if area is not None:
            return Limits(broken(PATH_RESERVED, _reserved(address, area, service.namespace)))
        if is_root(one, configs.items, template) and not is_granted(areas, one, service.namespace):
            return Limits(broken(PATH_RESERVED, _root(address, service.namespace)))
    return Limits(error=configs.error)


def areas_of(config: AIMClusterRuntimeConfig) -> Iterator[Area]:
    """The reservations of a config, one by one."""
    for one in (config.spec.routing.reservations if config.spec.routing else None) or ():
        for host, path in product(one.hostnames or (ANY_HOST,), one.path_prefixes or (ROOT,)):
            yield Area(config.name, tuple(one.namespaces), host, path)


def reserving(areas: Iterable[Area], address: Address, namespace: str) -> Area | None:
    """The reservation that keeps the address, or a part of it, from the namespace; of nested ones the inner decides."""
    known = tuple(areas)
    granted = [one for one in known if namespace in one.namespaces and address.lies_within(one.host, one.path)]
    most = max((one.rank for one in granted), default=None)
    others = [one for one in known if namespace not in one.namespaces and address.touches(one.host, one.path)]
    kept = [one for one in others if most is None or one.rank > most]
    return max(kept, key=lambda one: one.rank, default=None)


def is_granted(areas: Iterable[Area], address: Address, namespace: str) -> bool:
    """Whether an administrator gave the namespace the whole of the address."""
    return any(namespace in one.namespaces and address.lies_within(one.host, one.path) for one in areas)


def is_root(address: Address, configs: Iterable[AIMClusterRuntimeConfig], template: str | None) -> bool:
    """Whether the path contains those that the cluster's templates give to all namespaces (RT-215)."""
    templates = {one.spec.routing.path_template for one in configs if one.spec.routing} - {None, ""}
    if template in templates and "{" not in (template or ""):
        return False  # The administrator's own.
    roots = {ROOT, *(root_of(one) for one in templates if one and "{" in one)}
    return any(Address("", (), root).lies_within(ANY_HOST, address.path) for root in roots)


def root_of(template: str) -> str:
    """What every path of a template with placeholders lies below.

    >>> root_of("/models/{.metadata.namespace}/{.metadata.name}"), root_of("/m-{.metadata.name}")
    ('/models', '/')
    """
    literal = template.partition("{")[0].rpartition("/")[0]
    try:
        return normalise(literal or ROOT)
    except PathTemplateError:
        return ROOT


def _reserved(address: Address, area: Area, namespace: str) -> str:
    hosts = f" on host {area.host}" if area.host != ANY_HOST else ""
    return (
        f"path {address.path} on {address.gateway} equals, lies below or contains {area.path}{hosts}, which "
        f"AIMClusterRuntimeConfig {area.config} reserves for other namespaces; choose another pathTemplate or other "
        f"hostnames, or have an administrator add namespace {namespace} to that entry of spec.routing.reservations"
    )


def _root(address: Address, namespace: str) -> str:
    hosts = f" (hosts {', '.join(address.hostnames)})" if address.hostnames else ""
    return (
        f"path {address.path}{hosts} on {address.gateway} contains the paths of other namespaces; choose a longer "
        f"pathTemplate, or have an administrator reserve it for namespace {namespace} in spec.routing.reservations of "
        "an AIMClusterRuntimeConfig"
    )
