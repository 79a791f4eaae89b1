"""What the Go operator runs goes on as it is until somebody asks for something else (SV-302).

An InferenceService of ours has more in it: variables of the profile, and annotations, which KServe hands on to the
pods. To bring up to date what another operator has made would start every model of a living cluster anew. So the first
pass that finds such a one notes on the AIMService what is asked for, and while that is so, it is left alone.
"""

import hashlib
from dataclasses import asdict
from typing import Final

from aim_domain import AIMService, InferenceService, PodDefaults, ResolvedConfig, labels
from aim_domain.parts import INFERENCE_SERVICES, SERVICES
from aim_serving.references import Model, Template
from controller_runtime import FieldOwner, Patch, canonical, to_json

_DIGITS: Final = 16
_OF_ROUTING: Final = "routing"
_UNSAID: Final = PodDefaults()


def is_left(workload: InferenceService | None) -> bool:
    """Whether the Go operator still owns fields of it (FW-517)."""
    entries = () if workload is None else workload.metadata.managed_fields
    return any(
        FieldOwner(one.manager, one.operation, one.subresource) in INFERENCE_SERVICES.predecessors for one in entries
    )


def asked_for(service: AIMService, template: Template, model: Model, config: ResolvedConfig) -> str:
    """A digest of what users say about the pods of a service.

    Not of what discovery reports, as that is read anew when the services change; nor of routes, which are no pods.
    """
    spec = {name: value for name, value in to_json(service.spec).items() if name != _OF_ROUTING}
    asked = {
        "service": spec,
        "template": [template.name, to_json(template.spec)],
        "model": to_json(model.spec),
        "env": [to_json(variable) for variable in config.spec.env],
        # Of these only what is said: a default of the next release is nobody's wish.
        "pods": {name: value for name, value in asdict(config.pods).items() if value != getattr(_UNSAID, name)},
    }
    if config.spec.predictors is not None:
        asked["predictors"] = to_json(config.spec.predictors)
    return hashlib.sha256(canonical(asked)).hexdigest()[:_DIGITS]


def is_kept(service: AIMService, workload: InferenceService | None, asked: str) -> bool:
    """Whether the InferenceService stays as it is: it was left, and what is asked for was not changed since."""
    return is_left(workload) and _noted(service) in ("", asked)


def notes(service: AIMService, workload: InferenceService | None, asked: str) -> tuple[Patch, ...]:
    """What is remembered on the service while its InferenceService is kept, and forgotten when that is its own."""
    if is_left(workload):
        wanted, why = asked, "its InferenceService stays as it was left"
        missing = not _noted(service)
    else:
        wanted, why = None, "its InferenceService is made by this service now"
        missing = bool(_noted(service)) and workload is not None
    body = {"metadata": {"annotations": {labels.ANNOTATION_KEPT_WORKLOAD: wanted}}}
    patch = Patch(SERVICES, service.namespace, service.name, service.metadata.resource_version, body, why)
    return (patch,) if missing else ()


def _noted(service: AIMService) -> str:
    return service.metadata.annotations.get(labels.ANNOTATION_KEPT_WORKLOAD, "")
