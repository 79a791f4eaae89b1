"""The demo catalogue: AIM images with their labels, and what each image's discovery container prints."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from aim_local.registry.profiles import CUSTOM_PREFIX, ModelFile, Profile, custom_profile_output
from aim_local.registry.store import ImageStore
from controller_runtime import JsonObject, dumps
from oci_registry import InvalidReferenceError, parse_image


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


BASE_IMAGE: Final = "amdenterpriseai/aim-base:0.9.0"
"""What the AIM images are built on, by their own word."""
PRIVATE_PREFIX: Final = "private/"
"""Repositories below need the credentials of the local registry."""


@dataclass(frozen=True, slots=True)
class DemoImage:
    """A repository of the catalogue; all its tags have the same content but for the version label."""

    repository: str
    tags: tuple[str, ...]
    title: str = ""
    model_id: str = ""
    """Canonical name, e.g. `Qwen/Qwen3-32B`; empty for a base image."""
    profiles: tuple[Profile, ...] = ()
    general: tuple[Profile, ...] = ()
    """Profiles without weights, which others are derived from."""
    prefix: Prefix = Prefix.AMD
    style: DeploymentStyle = DeploymentStyle.PYTHON_OBJECTS
    licenses: str = "Apache-2.0"
    needs_hf_token: bool = False
    model_tags: str = "text-generation,chat"
    extra_labels: Mapping[str, str] = field(default_factory=dict)
    has_labels: bool = True
    as_index: bool = True
    log: str | None = None
    """What discovery prints instead of profiles."""

    def labels(self, tag: str) -> dict[str, str]:
        """All labels of one tag's image."""
        if not self.has_labels:
            return {}
        standard = oci_labels(title=self.title, version=tag, licenses=self.licenses)
        return {**standard, **aim_labels(self.prefix, self._vendor_values(tag)), **self.extra_labels}

    def files(self) -> dict[str, str]:
        """Files of its profiles, by their path below the folder of profiles."""
        own = {f"{self.model_id}/{one.profile_id}.yaml": one.as_file(self.model_id) for one in self.profiles}
        return {**own, **{f"general/{one.profile_id}.yaml": one.as_file("") for one in self.general}}

    def environment(self) -> dict[str, str]:
        """What an AIM image says of itself in its environment."""
        base = {"AIM_BASE_IMAGE_REF": f"docker.io/{BASE_IMAGE}"}
        return {**({"AIM_ID": self.model_id} if self.model_id else {}), **base}

    def _vendor_values(self, tag: str) -> dict[str, str]:
        if not self.model_id:
            return {"title": self.title}
        return {
            "title": self.title,
            "description.full": f"{self.title} served with vLLM, tuned for AMD Instinct accelerators.",
            "release.notes": f"Version {tag}.",
            "model.canonicalName": self.model_id,
            "model.source": f"https://huggingface.co/{self.model_id}",
            "model.tags": self.model_tags,
            "model.versions": tag,
            "model.variants": ",".join(dict.fromkeys(profile.model.name for profile in self.profiles)),
            "hfToken.required": "True" if self.needs_hf_token else "False",
            "model.recommendedDeployments": deployments_label(self.profiles, self.style),
        }


_QWEN: Final = ModelFile("Qwen/Qwen3-32B", 61.03)
_QWEN_FP8: Final = ModelFile("Qwen/Qwen3-32B-FP8", 32.1)
_LLAMA: Final = ModelFile("meta-llama/Llama-3.1-8B-Instruct", 14.97)
_LLAMA_FP8: Final = ModelFile("amd/Llama-3.1-8B-Instruct-FP8-KV", 8.46)
_MISTRAL: Final = ModelFile("mistralai/Mistral-Small-3.2-24B-Instruct-2506", 44.73)
_TINY: Final = ModelFile("HuggingFaceTB/SmolLM2-135M", 0.5)

DEMO_IMAGES: Final = (
    DemoImage(
        "amdenterpriseai/aim-qwen-qwen3-32b",
        ("0.8.4", "0.8.5", "0.9.0-rc1", "latest"),
        "Qwen3 32B",
        "Qwen/Qwen3-32B",
        (
            Profile("MI300X", 1, "latency", "fp16", _QWEN, description="Lowest latency on one MI300X"),
            Profile("MI300X", 1, "throughput", "fp8", _QWEN_FP8, description="Highest throughput on one MI300X"),
            Profile("MI325X", 2, "latency", "fp16", _QWEN, description="Latency across two MI325X"),
        ),
    ),
    DemoImage(
        "amdenterpriseai/aim-meta-llama-llama-3-1-8b-instruct",
        ("0.8.4", "0.8.5"),
        "Llama 3.1 8B Instruct",
        "meta-llama/Llama-3.1-8B-Instruct",
        (
            Profile("MI300X", 1, "latency", "fp16", _LLAMA, description="Meta's weights as they are"),
            Profile("MI300X", 1, "throughput", "fp8", _LLAMA_FP8, description="AMD's fp8 quantisation"),
            Profile("MI210", 1, "latency", "bf16", _LLAMA, "preview", description="Preview on MI210"),
        ),
        prefix=Prefix.SILOGEN,
        style=DeploymentStyle.JSON_ARRAY,
        licenses="llama3.1",
        needs_hf_token=True,
    ),
    DemoImage(
        "amdenterpriseai/aim-mistralai-mistral-small-3-2-24b-instruct-2506",
        ("0.8.5", "0.9.0"),
        "Mistral Small 3.2 24B Instruct",
        "mistralai/Mistral-Small-3.2-24B-Instruct-2506",
        (
            Profile("MI300X", 1, "latency", "bf16", _MISTRAL),
            Profile("MI355X", 1, "throughput", "bf16", _MISTRAL),
        ),
        style=DeploymentStyle.JSON_OBJECTS,
        # A label under the older prefix fills in what the newer one leaves empty (DI-104).
        extra_labels={"com.amd.aim.model.tags": "", "org.amd.silogen.model.tags": "text-generation, vision,"},
    ),
    DemoImage(
        "amdenterpriseai/aim-dummy",
        ("0.1.0", "0.1.1"),
        "Dummy",
        "HuggingFaceTB/SmolLM2-135M",
        (Profile("MI300X", 1, "latency", "fp8", _TINY, description="Small enough for a test"),),
        style=DeploymentStyle.PYTHON_LIST,
        as_index=False,
    ),
    DemoImage(
        "amdenterpriseai/aim-base",
        ("0.8.5", "0.9.0"),
        "AIM base",
        general=(Profile("MI300X", 1, "latency", "fp16", _TINY, "general"),),
    ),
    DemoImage(
        f"{PRIVATE_PREFIX}aim-dummy",
        ("0.1.0",),
        "Private dummy",
        "HuggingFaceTB/SmolLM2-135M",
        (Profile("MI300X", 1, "latency", "fp8", _TINY),),
        style=DeploymentStyle.JSON_ARRAY,
    ),
    DemoImage("badcases/no-labels", ("1.0.0",), has_labels=False),
    DemoImage(
        "badcases/malformed-labels",
        ("1.0.0",),
        "Malformed",
        "badcases/malformed",
        extra_labels={f"{Prefix.AMD}.model.recommendedDeployments": "{invalid json"},
    ),
    DemoImage(
        "badcases/noisy-output",
        ("1.0.0",),
        "Prints no array",
        "badcases/noisy",
        (Profile("MI300X", 1, "latency", "fp8", _TINY),),
        log="INFO starting [runtime]\nERROR no profile directory\n",
    ),
    DemoImage(
        "badcases/empty-output",
        ("1.0.0",),
        "Prints an empty array",
        "badcases/empty",
        (Profile("MI300X", 1, "latency", "fp8", _TINY),),
        log="[]\n",
    ),
)
"""Everything that the local registry offers; its only platform is linux/amd64."""

_BY_REPOSITORY: Final = {image.repository: image for image in DEMO_IMAGES}


def fill(store: ImageStore) -> ImageStore:
    """Put all demo images into a store and return it."""
    for image in DEMO_IMAGES:
        for tag in image.tags:
            store.put(image.repository, tag, labels=image.labels(tag), as_index=image.as_index)
    # Signatures are stored as tags too; no selector may take one for a version (MS-108).
    signed = "amdenterpriseai/aim-qwen-qwen3-32b"
    found = store.manifest(signed, "0.8.5")
    assert found is not None
    digest, manifest = found
    signature = store.put_manifest(signed, manifest.media_type, manifest.body)
    store.tag(signed, f"{digest.replace(':', '-')}.sig", signature)
    return store


def find_image(image: str) -> DemoImage | None:
    """The catalogue entry that an image reference means, on whatever registry host; None if there is none."""
    try:
        reference = parse_image(image)
    except InvalidReferenceError:
        return None
    found = _BY_REPOSITORY.get(reference.repository.path)
    known = found is not None and (reference.digest is not None or reference.tag in found.tags)
    return found if known else None


def discovery_output(image: str, env: Mapping[str, str]) -> JsonObject | None:
    """The array element that the image's discovery container prints, or None if it fails.

    Args:
        image: the container's image reference.
        env: its environment; the first profile that fits what is set is chosen, as the runtime does.
    """
    found = find_image(image)
    if found is None or found.log is not None:
        return None
    if env.get("AIM_PROFILE_ID", "").startswith(CUSTOM_PREFIX):
        return custom_profile_output(env)
    profile = next((profile for profile in found.profiles if profile.matches(env)), None)
    return None if profile is None else profile.as_output(found.model_id)


def discovery_log(image: str, env: Mapping[str, str]) -> str | None:
    """The whole log of the discovery container, or None if it exits with an error."""
    found = find_image(image)
    if found is not None and found.log is not None:
        return found.log
    output = discovery_output(image, env)
    return None if output is None else dumps([output]).decode() + "\n"
