"""Labels of AIM images, in all the spellings that published images use (DI-104…DI-113)."""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum

from aim_local.registry.profiles import Profile


class Prefix(StrEnum):
    """The two vendor prefixes."""

    AMD = "com.amd.aim"
    SILOGEN = "org.amd.silogen"


class DeploymentStyle(StrEnum):
    """The four spellings of the deployment list (DI-110)."""

    JSON_ARRAY = "json-array"
    JSON_OBJECTS = "json-objects"
    PYTHON_LIST = "python-list"
    PYTHON_OBJECTS = "python-objects"


def deployments_label(profiles: Sequence[Profile], style: DeploymentStyle) -> str:
    """Value of the label `model.recommendedDeployments`."""
    entries = [profile.as_deployment() for profile in profiles]
    match style:
        case DeploymentStyle.JSON_ARRAY:
            return json.dumps(entries)
        case DeploymentStyle.JSON_OBJECTS:
            return ", ".join(json.dumps(entry) for entry in entries)
        case DeploymentStyle.PYTHON_LIST:
            return repr(entries)
        case DeploymentStyle.PYTHON_OBJECTS:
            return ", ".join(repr(entry) for entry in entries)


def aim_labels(prefix: Prefix, values: Mapping[str, str]) -> dict[str, str]:
    """Labels of one vendor prefix."""
    return {f"{prefix}.{suffix}": value for suffix, value in values.items()}


def oci_labels(*, title: str, version: str, licenses: str) -> dict[str, str]:
    """The standard labels `org.opencontainers.image.*` (DI-106)."""
    values = {
        "title": title,
        "description": f"AMD Inference Microservice for {title}",
        "licenses": licenses,
        "vendor": "AMD",
        "authors": "AMD",
        "source": "https://github.com/amd-enterprise-ai/aim-build",
        "documentation": "https://enterprise-ai.docs.amd.com",
        "created": "2025-01-01T00:00:00Z",
        "revision": "0000000",
        "version": version,
    }
    return {f"org.opencontainers.image.{name}": value for name, value in values.items()}
