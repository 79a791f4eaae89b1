"""Derived object names and label values (FW-230…FW-236).

Names of children are computed, never invented, so that a repeated plan finds what the first one made. They are equal,
bit for bit, to those of the existing Go operator (FW-237); hence the peculiar JSON encoding of the hash inputs.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from controller_runtime import ApiModel, JsonObject, dumps, to_json

MAX_NAME: Final = 63
"""Longest name of a child and longest label value."""
HASH_LENGTH: Final = 8
"""Usual number of hash digits."""

_NAME_OUTSIDER: Final = re.compile(r"[^a-z0-9-]")
_LABEL_OUTSIDERS: Final = re.compile(r"[^a-z0-9._-]+")
_LABEL_EDGE: Final = "_.-"
_ESCAPES: Final = {
    ord("<"): "\\u003c",
    ord(">"): "\\u003e",
    ord("&"): "\\u0026",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}
_SHORTEST_INFERENCE_SERVICE: Final = 10
_LETTER_FIRST: Final = "aim-"
"""Goes before a name that begins with a digit."""


class NamingError(ValueError):
    """No name or label value can be derived; the message names the input and the limit."""


@dataclass(frozen=True, slots=True)
class Structured:
    """A JSON object that is hashed as it is, in its own key order, instead of as a flattened map (AR-025)."""

    value: JsonObject


HashSource: TypeAlias = str | int | ApiModel | Structured | Sequence["HashSource"] | Mapping[str, "HashSource"] | None
"""What can enter a name's hash; ``None`` and the empty list both stand for an absent list (FW-233, AR-022)."""


def sanitise_segment(text: str) -> str:
    """The text as part of a name; may be empty (FW-230)."""
    return _NAME_OUTSIDER.sub("-", text.lower()).strip("-")[:MAX_NAME].rstrip("-")


def derive_name(
    parts: Sequence[str],
    hash_sources: Sequence[HashSource] = (),
    *,
    hash_length: int = HASH_LENGTH,
    max_length: int = MAX_NAME,
) -> str:
    """Name from parts and hash (FW-231, FW-232).

    Raises:
        NamingError: no parts, or a maximum outside 1…63.
    """
    if not parts:
        raise NamingError("a derived name needs at least one part")
    if not 1 <= max_length <= MAX_NAME:
        raise NamingError(f"maximum name length {max_length} for {'-'.join(parts)} is outside 1 to {MAX_NAME}")
    segments = [sanitise_segment(part) or "part" for part in parts]
    suffix = hash_of(hash_sources, hash_length) if hash_sources and hash_length > 0 else ""
    tail = [suffix] if suffix else []
    _shrink(segments, max_length - sum(len(digits) + 1 for digits in tail))
    return "-".join([*segments, *tail])


def _shrink(segments: list[str], room: int) -> None:
    """Shorten the longest segment, one character at a time, until all fit (FW-232)."""
    while sum(map(len, segments)) + len(segments) - 1 > room:
        longest = max(range(len(segments)), key=lambda index: len(segments[index]))
        shorter = segments[longest][:-1].rstrip("-")
        if not shorter:
            return
        segments[longest] = shorter


def hash_of(sources: Sequence[HashSource], length: int = HASH_LENGTH) -> str:
    """First hex digits of the SHA-256 over the encoded sources, joined by ``|`` (FW-233)."""
    text = "|".join(encode_hash_source(source) for source in sources)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def encode_hash_source(source: HashSource) -> str:
    """Compact JSON with flattened maps and HTML-safe escapes (FW-233)."""
    return dumps(_plain(source)).decode().translate(_ESCAPES)


def _plain(source: HashSource) -> object:
    if isinstance(source, Structured):
        return source.value
    if isinstance(source, ApiModel):
        return _without_empty(to_json(source))
    if isinstance(source, Mapping):
        return [item for key in sorted(source) for item in (key, _plain(source[key]))]
    if isinstance(source, Sequence) and not isinstance(source, str):
        # The existing operator hashes absent and empty lists alike (AR-022).
        return [_plain(item) for item in source] or None
    return source


def _without_empty(value: object) -> object:
    """JSON of an API value without empty members; an explicit false stays, because it is a set pointer."""
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    if not isinstance(value, dict):
        return value
    reduced = {key: _without_empty(member) for key, member in value.items()}
    return {key: member for key, member in reduced.items() if member not in (None, "", [], {})}


def label_value(text: str) -> str:
    """The text as label value (FW-235).

    Raises:
        NamingError: nothing is left of it.
    """
    value = optional_label_value(text)
    if value is None:
        raise NamingError(f"{text!r} has no character that a label value may contain")
    return value


def optional_label_value(text: str) -> str | None:
    """The text as label value; ``None`` where nothing is left of it and the label is left out (FW-235, SV-036)."""
    replaced = _LABEL_OUTSIDERS.sub("_", text.lower()).strip(_LABEL_EDGE)
    return replaced[:MAX_NAME].strip(_LABEL_EDGE) or None


# Names of children that more than one service, or a service and its tests, must agree on (FW-236).


@dataclass(frozen=True, slots=True)
class ForeignName:
    """A text that KServe, KEDA or Kubernetes makes of the name of an InferenceService.

    Attributes:
        what: for messages.
        form: the text, with ``{name}`` and ``{namespace}``.
        limit: its longest length in characters.
    """

    what: str
    form: str
    limit: int = MAX_NAME

    def text(self, name: str, namespace: str) -> str:
        """The text for one InferenceService."""
        return self.form.format(name=name, namespace=namespace)

    def room(self, namespace: str) -> int:
        """How many characters it leaves for the name; negative when the namespace alone is too long."""
        return self.limit - len(self.text("", namespace))


FOREIGN_NAMES: Final = (
    ForeignName("host name", "{name}-predictor-{namespace}"),
    ForeignName("label app of the Deployment", "isvc.{name}-predictor"),
    ForeignName("Service, its EndpointSlices and the label of the ScaledObject", "{name}-predictor"),
    ForeignName("label of the pods", "{name}"),
    ForeignName("HorizontalPodAutoscaler", "keda-hpa-{name}-predictor", limit=253),
)
"""All that others derive from an InferenceService; each has to be valid, whatever the namespace (FW-800)."""


def inference_service_name(service: str, namespace: str) -> str:
    """Name of a service's InferenceService, short enough for every name in `FOREIGN_NAMES` (SV-144).

    KServe and Services want a letter first, which a service's own name need not have (FW-801).

    Raises:
        NamingError: the namespace leaves fewer than ten characters (SV-145).
    """
    tightest = min(FOREIGN_NAMES, key=lambda one: one.room(namespace))
    room = tightest.room(namespace)
    if room < _SHORTEST_INFERENCE_SERVICE:
        longest = len(namespace) + room - _SHORTEST_INFERENCE_SERVICE
        raise NamingError(
            f"namespace {namespace} has {len(namespace)} characters, which leaves no room for a {tightest.what} of "
            f"at most {tightest.limit} characters; use a namespace of at most {longest} characters"
        )
    if sanitise_segment(service)[:1].isdigit():
        # The service's own name enters the hash, as a service may be called "aim-" and the rest itself.
        return derive_name([f"{_LETTER_FIRST}{service}"], [namespace, service], max_length=room)
    return derive_name([service], [namespace], max_length=room)


def adapter_folder(artifact: str, uid: str) -> str:
    """Folder of an adapter on its disk, which no other artifact of that name ever has (LA-021)."""
    return derive_name([artifact], [uid])


def adapter_disk_name(service: str, uid: str, size: str) -> str:
    """AIMArtifact of a service's own disk for adapters; of another size it is another one (LA-011)."""
    return derive_name([service, "adapters"], [uid, size])


def adapter_artifact_name(service: str, adapter: str, source: str, disk: str) -> str:
    """AIMArtifact of an adapter that a service names by its source (LA-020)."""
    return derive_name([service, adapter], [source, disk])


def predictor_name(inference_service: str) -> str:
    """Name of the Service (and Deployment) that KServe makes for an InferenceService."""
    return f"{inference_service}-predictor"


def autoscaler_name(inference_service: str) -> str:
    """Name of the HPA that KEDA makes for an InferenceService."""
    return f"keda-hpa-{predictor_name(inference_service)}"


def http_route_name(service: str, namespace: str) -> str:
    """Name of a service's HTTPRoute."""
    return derive_name([service], [namespace])


def shared_cache_name(template: str, namespace: str) -> str:
    """Usual name of the shared AIMTemplateCache of a template."""
    return derive_name([template], [namespace])


def shared_cache_name_by_scope(template: str, namespace: str, scope: str) -> str:
    """Name of a shared cache whose usual name belongs to another template (SV-124)."""
    return derive_name([template], [namespace, scope, template])


def dedicated_cache_name(template: str, service: str, service_uid: str) -> str:
    """Name of the AIMTemplateCache of one service alone."""
    return derive_name([template, service], [service_uid])


def profile_cache_name(profile: str, where: str) -> str:
    """Name of the shared AIMProfileCache of a profile (PR-081).

    Args:
        where: the namespace of the profile, or the scope of one of the cluster.
    """
    return derive_name([profile, "cache"], [where, profile])


def dedicated_profile_cache_name(profile: str, service: str, service_uid: str, scope: str) -> str:
    """Name of the AIMProfileCache of one service alone (PR-081)."""
    return derive_name([profile, service, "cache"], [service_uid, scope])


def overlay_name(seed: str, service: str, service_uid: str) -> str:
    """Name of the AIMProfile of a service's overrides (PR-060)."""
    return derive_name([seed, service, "overlay"], [service_uid])


def profile_file_name(service: str) -> str:
    """Name of the ConfigMap with the file of a service's profile (PR-071)."""
    return derive_name([service, "profile"], [service, "service-profile"])


def discovered_profile_name(model: str, profile_id: str) -> str:
    """Name of a profile that was found in the image of a model (PR-095)."""
    return derive_name([model, profile_id], [model, profile_id])


def set_member_name(profile_set: str, identity: str) -> str:
    """Name of a profile that a set derives (PR-113)."""
    return derive_name([profile_set, identity], [profile_set, identity])


def child_set_name(model: str) -> str:
    """Name of the profile set of a model that is derived from others (PR-115)."""
    return derive_name([model, "profiles"], [model, "profile-set"])


def catalogue_name(model: str) -> str:
    """Name of the ConfigMap with the profiles of a model's image (PR-094)."""
    return derive_name([model, "discovery"], [model, "profile-discovery"])


def template_profile_name(template: str) -> str:
    """Name of a template's custom-profile ConfigMap."""
    return derive_name([template, "custom-profile"], [template, "template-custom-profile"])


def service_profile_name(service: str) -> str:
    """Name of a service's copy of a custom-profile ConfigMap."""
    return derive_name([service, "custom-profile"], [service, "service-custom-profile"])


def image_model_name(image_name: str, tag: str, image: str) -> str:
    """Name of the AIMModel made for an image; ``tag`` is the digest's first six digits for a digest reference."""
    return derive_name([image_name, tag], [image])


def catalogue_model_name(registry: str, repository: str, tag: str) -> str:
    """Name of the AIMClusterModel that a model source makes for an image."""
    return derive_name([repository, tag], [registry, repository, tag], hash_length=6)


def claim_name(artifact: str, artifact_uid: str) -> str:
    """Name of an artifact's PersistentVolumeClaim."""
    return derive_name([artifact, "cache"], [artifact_uid])


def download_job_name(artifact: str, artifact_uid: str) -> str:
    """Name of an artifact's download Job."""
    return derive_name([artifact, "download"], [artifact_uid])


def check_size_job_name(artifact: str, artifact_uid: str) -> str:
    """Name of an artifact's check-size Job."""
    return derive_name([artifact, "check-size"], [artifact_uid])
