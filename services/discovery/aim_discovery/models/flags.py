"""Whether a model's image is inspected and whether templates come from it (DI-057…DI-062)."""

from dataclasses import dataclass

from aim_domain import AIMModelSpec, RuntimeConfigSpec


@dataclass(frozen=True, slots=True)
class DiscoveryFlags:
    """The effective flags.

    Attributes:
        extract: the labels of the image are read.
        create: templates are made of the recommended deployments.
        suppressed: the user refuses every template, explicit ones too (DI-060).
    """

    extract: bool
    create: bool
    suppressed: bool = False


def discovery_flags(spec: AIMModelSpec, config: RuntimeConfigSpec) -> DiscoveryFlags:
    """The spec decides when it says anything, else the runtime config, else yes (DI-057, DI-058)."""
    if spec.has("discovery"):
        wanted = spec.discovery
        create = wanted.create_service_templates
        return DiscoveryFlags(wanted.extract_metadata, create, suppressed=not create)
    automatic = config.model.auto_discovery if config.model is not None else None
    enabled = automatic is not False
    return DiscoveryFlags(enabled, enabled)
