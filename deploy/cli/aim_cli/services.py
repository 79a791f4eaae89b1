"""Today's code of the five services."""

from collections.abc import Iterator, Mapping
from importlib import import_module

from aim_domain.services import SERVICES, package_of
from controller_runtime.replay import ServiceCode


class _Services(Mapping[str, ServiceCode]):
    """Imports a service when it is asked for: one takes up to half a second, and most answers need one or two."""

    def __getitem__(self, name: str) -> ServiceCode:
        if name not in SERVICES:
            raise KeyError(name)
        service = import_module(f"{package_of(name)}.service")
        return ServiceCode(service.SETTINGS, service.definition)

    def __iter__(self) -> Iterator[str]:
        return iter(SERVICES)

    def __len__(self) -> int:
        return len(SERVICES)


def services() -> Mapping[str, ServiceCode]:
    """Each service by its name."""
    return _Services()
