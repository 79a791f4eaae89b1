"""Two services whose InferenceServices would have one name: only the older may be routed to it.

Derived names are shortened, so long service names of a namespace can meet. The younger service gets no
InferenceService (SV-146); a route of its own would lead to the other one's model.
"""

from aim_domain import AIMService
from aim_domain.naming import NamingError, inference_service_name
from aim_domain.parts import SERVICES
from controller_runtime import Index, View, scoped


def _backend(service: AIMService) -> list[str]:
    try:
        return [scoped(service.namespace, inference_service_name(service.name, service.namespace))]
    except NamingError:
        return []


SERVICES_BY_BACKEND = Index(SERVICES, "backend", _backend)
"""Services by the name of their InferenceService."""


def older_namesake(view: View, service: AIMService) -> AIMService | None:
    """The service that has the InferenceService's name by right, if it is another one."""
    sharing = [one for name in _backend(service) for one in view.select(SERVICES_BY_BACKEND, name).items]
    older = [one for one in sharing if one.uid != service.uid and not one.deleting and _age(one) < _age(service)]
    return min(older, key=_age, default=None)


def _age(service: AIMService) -> tuple[str, str]:
    created = service.metadata.creation_timestamp
    return (created.isoformat() if created else "", service.uid)
