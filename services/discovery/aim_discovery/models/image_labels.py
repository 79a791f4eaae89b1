"""Image metadata from the labels of an image (DI-100…DI-114)."""

import ast
import json
from collections.abc import Callable, Mapping
from typing import Final

from aim_domain import MAX_DEPLOYMENTS, ImageMetadata
from aim_domain.bounds import MAX_ENTRIES, MAX_STRING, MAX_VALUE
from controller_runtime import JsonObject

VENDOR_PREFIX: Final = "com.amd.aim."
_VENDOR_PREFIXES: Final = (VENDOR_PREFIX, "org.amd.silogen.")
"""The newer prefix wins, label by label (DI-104)."""
CANONICAL_NAME: Final = "model.canonicalName"
RECOMMENDED: Final = "model.recommendedDeployments"
_OCI_PREFIX: Final = "org.opencontainers.image."
_OCI_FIELDS: Final = (
    "title",
    "description",
    "licenses",
    "vendor",
    "authors",
    "source",
    "documentation",
    "created",
    "revision",
    "version",
)
_TRUE: Final = frozenset({"1", "t", "T", "true", "True", "TRUE"})
_TEXT_KEYS: Final = ("gpuModel", "precision", "metric", "profileId", "description")
_COUNT_KEY: Final = "gpuCount"
_MAX_LABELS_SIZE: Final = 256 << 10
"""Characters of all labels that are kept as they are."""
_LARGEST_COUNT: Final = 2**31 - 1


class MalformedMetadataError(ValueError):
    """A label cannot be understood; the message names the label and the fault (DI-098)."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or "metadata malformed")


def parse_labels(labels: Mapping[str, str]) -> JsonObject:
    """The JSON of `ImageMetadata`; no label is mandatory (DI-103).

    Raises:
        MalformedMetadataError: the deployment list is unusable (DI-112).
    """
    oci = {name: text for name in _OCI_FIELDS if (text := labels.get(_OCI_PREFIX + name))}
    model: JsonObject = {}
    for suffix, (field, parse) in _MODEL_LABELS.items():
        text = _vendor_value(labels, suffix)
        if text:
            model[field] = parse(text)
    return {"model": model, "oci": oci, "originalLabels": dict(sorted(labels.items()))}


def limited(metadata: JsonObject) -> tuple[JsonObject, list[str]]:
    """Metadata within the bounds of the definitions, and what was left out for them, in words (CC-341)."""
    left_out: list[str] = []
    model = {name: _limited_member(name, value, left_out) for name, value in metadata["model"].items()}
    oci = {name: _limited_member(name, value, left_out) for name, value in metadata["oci"].items()}
    kept: dict[str, str] = {}
    room = _MAX_LABELS_SIZE
    given = metadata["originalLabels"]
    for name, value in given.items():
        size = len(name) + len(value)
        if len(kept) < MAX_ENTRIES and len(value) <= MAX_VALUE and size <= room:
            kept[name] = value
            room -= size
    if len(kept) < len(given):
        left_out.append(f"{len(given) - len(kept)} of {len(given)} labels")
    return {"model": model, "oci": oci, "originalLabels": kept}, left_out


def _limited_member(name: str, value: object, left_out: list[str]) -> object:
    if isinstance(value, list):
        fit = [entry for entry in value if _longest_text(entry) <= MAX_STRING]
        kept = fit[: MAX_DEPLOYMENTS if name == "recommendedDeployments" else MAX_ENTRIES]
        if len(kept) < len(value):
            left_out.append(f"{len(value) - len(kept)} of {len(value)} {name}")
        return kept
    longest = MAX_VALUE if name in ("descriptionFull", "releaseNotes") else MAX_STRING
    if isinstance(value, str) and len(value) > longest:
        left_out.append(f"{len(value) - longest} of {len(value)} characters of {name}")
        return value[:longest]
    return value


def _longest_text(entry: object) -> int:
    texts = entry.values() if isinstance(entry, dict) else (entry,)
    return max((len(text) for text in texts if isinstance(text, str)), default=0)


def _vendor_value(labels: Mapping[str, str], suffix: str) -> str:
    return next((text for prefix in _VENDOR_PREFIXES if (text := labels.get(prefix + suffix))), "")


def label_called(metadata: ImageMetadata, suffix: str) -> str:
    """Name of the label of this suffix, with or without a value, of the image that was read; empty without one."""
    names = (prefix + suffix for prefix in _VENDOR_PREFIXES)
    return next((name for name in names if name in metadata.original_labels), "")


def comma_list(text: str) -> list[str]:
    """Trimmed, non-empty parts in their order (DI-108)."""
    return [part for raw in text.split(",") if (part := raw.strip())]


def boolean(text: str) -> bool:
    """Whether the text is one of the spellings of true; anything else is false (DI-109)."""
    return text in _TRUE


def deployments(text: str) -> list[JsonObject]:
    """The recommended deployments, in any of the four spellings (DI-110, DI-113).

    Raises:
        MalformedMetadataError: none of the spellings, or a value of another type.
    """
    for read in (json.loads, ast.literal_eval):
        for candidate in (text, f"[{text}]"):
            found = _attempt(read, candidate)
            if isinstance(found, list):
                return [_deployment(entry) for entry in found]
    raise MalformedMetadataError(
        "label model.recommendedDeployments is neither a JSON array nor a Python list of objects: "
        f"{text[:80]!r}; correct the label and push the image again"
    )


def _attempt(read: Callable[[str], object], text: str) -> object:
    try:
        return read(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _deployment(entry: object) -> JsonObject:
    if not isinstance(entry, dict):
        raise MalformedMetadataError(f"label model.recommendedDeployments: {entry!r} is not an object")
    result: JsonObject = {}
    for key in _TEXT_KEYS:
        value = entry.get(key)
        if value is None:
            continue
        if not isinstance(value, str):
            raise _wrong_type(key, value, "a string")
        result[key] = value
    count = entry.get(_COUNT_KEY)
    if count is not None:
        if isinstance(count, bool) or not isinstance(count, int) or abs(count) > _LARGEST_COUNT:
            raise _wrong_type(_COUNT_KEY, count, "an integer")
        result[_COUNT_KEY] = count
    return result


def _wrong_type(key: str, value: object, expected: str) -> MalformedMetadataError:
    return MalformedMetadataError(f"label model.recommendedDeployments: {key} is {value!r}, expected {expected}")


def _verbatim(text: str) -> str:
    return text


_MODEL_LABELS: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    CANONICAL_NAME: ("canonicalName", _verbatim),
    "model.source": ("source", _verbatim),
    "model.tags": ("tags", comma_list),
    "model.versions": ("versions", comma_list),
    "model.variants": ("variants", comma_list),
    "hfToken.required": ("hfTokenRequired", boolean),
    "title": ("title", _verbatim),
    "description.full": ("descriptionFull", _verbatim),
    "release.notes": ("releaseNotes", _verbatim),
    RECOMMENDED: ("recommendedDeployments", deployments),
}
