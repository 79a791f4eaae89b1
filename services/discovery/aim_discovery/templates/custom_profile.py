"""The custom profile of a template: its component and its ConfigMap (DI-239…DI-257)."""

from dataclasses import dataclass

from aim_discovery.scopes import Template, TemplateScope
from aim_domain import (
    InvalidProfileError,
    LabelPropagation,
    RenderedProfile,
    TemplateSpec,
    child_labels,
    labels,
    render_profile,
)
from aim_domain.component_names import ComponentName
from aim_domain.naming import label_value, template_profile_name
from aim_domain.parts import CUSTOM_PROFILES
from controller_runtime import (
    Category,
    Child,
    ClassifiedError,
    Component,
    Delete,
    Event,
    EventType,
    JsonObject,
    State,
    View,
    kind_of,
)
from controller_runtime.kinds import CONFIG_MAP


@dataclass(frozen=True, slots=True)
class CustomProfileState:
    """The custom profile of a template, if it has one.

    Attributes:
        component: ``None`` without a custom profile (DI-240).
        rendered: ``None`` also when it is invalid.
    """

    component: Component | None = None
    rendered: RenderedProfile | None = None


def custom_profile_of(spec: TemplateSpec) -> CustomProfileState:
    """Render and judge it."""
    if spec.custom_profile is None:
        return CustomProfileState()
    name = ComponentName.CUSTOM_PROFILE
    try:
        rendered = render_profile(spec)
    except InvalidProfileError as fault:
        error = ClassifiedError(Category.INVALID_SPEC, "InvalidCustomProfile", str(fault))
        return CustomProfileState(Component(name, errors=(error,), is_input=True))
    message = f"Profile {rendered.profile_id}"
    return CustomProfileState(Component(name, State.READY, "CustomProfileRendered", message), rendered)


def profile_config_map(
    template: Template,
    scope: TemplateScope,
    rendered: RenderedProfile,
    namespace: str,
    propagation: LabelPropagation | None,
) -> Child:
    """The ConfigMap with the file (DI-247)."""
    own = {labels.TEMPLATE: label_value(template.name), labels.COMPONENT: labels.COMPONENT_CUSTOM_PROFILE}
    metadata: JsonObject = {
        "name": template_profile_name(template.name),
        "namespace": namespace,
        "labels": child_labels(own, parent=template, controller=scope.controller, propagation=propagation),
    }
    body = {"metadata": metadata, "data": {rendered.file_name: rendered.text}}
    return Child(CUSTOM_PROFILES, kind_of(body, CONFIG_MAP))


def obsolete_config_map(template: Template, namespace: str, view: View) -> tuple[Delete, ...]:
    """The ConfigMap of a profile that was removed (DI-249)."""
    if template.spec.custom_profile is not None:
        return ()
    found = view.get(CUSTOM_PROFILES, namespace, template_profile_name(template.name)).value
    if found is None or found.deleting or all(one.uid != template.uid for one in found.metadata.owner_references):
        return ()
    return (Delete(CUSTOM_PROFILES, found.namespace, found.name, found.uid, "the custom profile was removed"),)


def ignored_profile_id(template: Template) -> tuple[Event, ...]:
    """A profile id beside a custom profile has no effect (DI-252)."""
    if template.spec.custom_profile is None or not template.spec.profile_id:
        return ()
    message = f"profileId {template.spec.profile_id} is ignored, because customProfile is set; remove one of the two"
    return (Event(EventType.WARNING, "ProfileIdIgnored", message, standing=True),)
