"""The custom profile of a template inside the serving pods (SV-156, SV-158, SV-176, SV-268, DI-255)."""

import hashlib
from dataclasses import dataclass
from typing import Final

from aim_domain import (
    VOLUME,
    AIMService,
    InvalidProfileError,
    LabelPropagation,
    RenderedProfile,
    child_labels,
    labels,
    render_profile,
)
from aim_domain.naming import optional_label_value, service_profile_name, template_profile_name
from aim_domain.parts import CUSTOM_PROFILES
from aim_serving.references import Template
from controller_runtime import Category, Child, ClassifiedError, JsonObject, kind_of
from controller_runtime.kinds import CONFIG_MAP

_HASH_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class ProfileMount:
    """A profile file and where the pods find it.

    Attributes:
        config_map: name of the ConfigMap in the service's namespace.
        copy: that ConfigMap, when serving has to make it: the one of a cluster template is in another namespace.
    """

    rendered: RenderedProfile
    config_map: str
    copy: Child | None = None

    @property
    def volume(self) -> JsonObject:
        return {"name": VOLUME, "configMap": {"name": self.config_map}}

    @property
    def mount(self) -> JsonObject:
        return {"name": VOLUME, "mountPath": self.rendered.mount_path, "readOnly": True}

    @property
    def hash(self) -> str:
        """Changes with the file, so that the pods are replaced then (SV-268)."""
        return hashlib.sha256(self.rendered.text.encode()).hexdigest()[:_HASH_DIGITS]


def profile_mount(
    service: AIMService, template: Template, propagation: LabelPropagation | None
) -> ProfileMount | ClassifiedError | None:
    """How the template's custom profile gets into the pods; ``None`` without one."""
    if template.spec.custom_profile is None:
        return None
    try:
        rendered = render_profile(template.spec)
    except InvalidProfileError as fault:
        return ClassifiedError(Category.INVALID_SPEC, "InvalidCustomProfile", f"template {template.key}: {fault}")
    if template.namespace:
        return ProfileMount(rendered, template_profile_name(template.name))
    name = service_profile_name(service.name)
    return ProfileMount(rendered, name, _copy(service, template, name, rendered, propagation=propagation))


def _copy(
    service: AIMService,
    template: Template,
    name: str,
    rendered: RenderedProfile,
    *,
    propagation: LabelPropagation | None,
) -> Child:
    of_template = optional_label_value(template.name)
    own = {
        labels.COMPONENT: labels.COMPONENT_CUSTOM_PROFILE,
        **({labels.TEMPLATE: of_template} if of_template else {}),
    }
    metadata = {
        "name": name,
        "namespace": service.namespace,
        "labels": child_labels(own, parent=service, controller="service", propagation=propagation),
    }
    body = kind_of({"metadata": metadata, "data": {rendered.file_name: rendered.text}}, CONFIG_MAP)
    return Child(CUSTOM_PROFILES, body)
