"""The profiles of an image: how they are read, kept in a ConfigMap, and understood (PR-090 to PR-095)."""

import base64
import binascii
import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final

import yaml

from aim_domain import (
    ACCELERATOR_NAME,
    MODEL_ID,
    VARIANT,
    AcceleratorType,
    AIMProfile,
    AutoSelection,
    Metric,
    Precision,
    ProfileType,
    labels,
)
from controller_runtime import JsonObject, OpenEnum, dumps, loads
from controller_runtime.core import ConfigMap

COMMAND_VERSION: Final = "v1"
"""Part of the identity of what was read; another one reads all images again."""
ROOT: Final = "/workspace/aim-runtime/profiles"
GENERAL: Final = "general"
"""Folder of profiles without weights."""

_FILE: Final = "AIM-PROFILE"
_META: Final = "AIM-IMAGE"
_END: Final = "AIM-END"
SCRIPT: Final = f"""set -eu
root="${{AIM_PROFILES:-{ROOT}}}"
emit() {{ printf '{_FILE} %s ' "${{1#"$root"/}}"; base64 < "$1" | tr -d '\\n'; printf '\\n'; }}
list() {{
  if [ -d "$1" ]; then find "$1" -name '*.yaml' -type f | sort | while read -r file; do emit "$file"; done; fi
}}
if [ -n "${{AIM_ID:-}}" ]; then list "$root/$AIM_ID"; fi
list "$root/{GENERAL}"
printf '{_META} %s %s\\n' "$(printf '%s' "${{AIM_ID:--}}" | base64 | tr -d '\\n')" \\
  "$(printf '%s' "${{AIM_BASE_IMAGE_REF:--}}" | base64 | tr -d '\\n')"
echo {_END}
"""
"""What the discovery Job runs in the image of a model: any POSIX shell has it."""

LARGEST: Final = 256 << 10
"""Bytes of all files together as JSON, which one pass reads: some hundred times those of the images that are known."""
MOST: Final = 256
"""Profiles of one image, each an object: some ten times those of the images that are known."""
_LONGEST_REFERENCE: Final = 1024
_DEEPEST: Final = 32
_MOST_IN_NODE: Final = 1024
_LARGEST_INTEGER: Final = 2**63 - 1
_ABSENT: Final = "-"
_KEY_PREFIX: Final = "profiles."
_METADATA: Final = "metadata.json"
_VARIABLE: Final = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,200}")
_SLASH: Final = "__"


class CatalogueError(ValueError):
    """What was printed, or is kept, is no catalogue; the message says why."""


@dataclass(frozen=True, slots=True)
class Printed:
    """What the script printed.

    Attributes:
        files: their content by path below the folder of profiles.
    """

    files: Mapping[str, str]
    aim_id: str
    base_image: str


def parse_log(log: str) -> Printed:
    """The files and the identity that the script printed; other lines are of the image.

    Raises:
        CatalogueError: it was cut off, or is too large.
    """
    files: dict[str, str] = {}
    aim_id = base_image = ""
    is_whole = False
    for line in log.splitlines():
        words = line.split(" ")
        if words[0] == _FILE and len(words) >= 3:
            # A path may have spaces; base64 has none.
            files[" ".join(words[1:-1])] = _decode(words[-1])
        elif words[0] == _META and len(words) == 3:
            aim_id, base_image = (text if text != _ABSENT else "" for text in map(_decode, words[1:]))
        is_whole = is_whole or line.strip() == _END
    if not is_whole:
        raise CatalogueError("the output of the discovery Job is not complete")
    # As messages and objects have them: a control character takes six bytes there.
    if sum(len(dumps(text)) for text in files.values()) > LARGEST:
        raise CatalogueError(f"the profiles of the image have more than {LARGEST} bytes")
    if len(files) > MOST:
        raise CatalogueError(f"the image has {len(files)} profiles, more than {MOST}")
    if max(len(aim_id), len(base_image)) > _LONGEST_REFERENCE:
        raise CatalogueError(f"AIM_ID or AIM_BASE_IMAGE_REF has more than {_LONGEST_REFERENCE} characters")
    return Printed(files, aim_id, base_image)


def _decode(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise CatalogueError(f"a line of the output cannot be decoded: {error}") from error


def config_map_data(printed: Printed, image: str, spec_hash: str) -> dict[str, str]:
    """Data of the ConfigMap that keeps a catalogue (PR-094)."""
    files = {_key(path): text for path, text in printed.files.items()}
    kept = {key: text for key, text in files.items() if _KEY.fullmatch(key)}
    metadata = {
        "aimId": printed.aim_id,
        "sourceImage": image,
        "baseImage": printed.base_image,
        "sourceSpecHash": spec_hash,
        "discoveryCommandVersion": COMMAND_VERSION,
        "profileIds": sorted({_stem(key) for key in kept}),
        "leftOut": sorted(path for path in printed.files if _key(path) not in kept),
    }
    return {**kept, _METADATA: dumps(metadata).decode()}


def _key(path: str) -> str:
    return f"{_KEY_PREFIX}{path.replace('/', _SLASH)}"


def _stem(key: str) -> str:
    return key.removeprefix(_KEY_PREFIX).rpartition(_SLASH)[2].removesuffix(".yaml")


@dataclass(frozen=True, slots=True)
class Entry:
    """A profile of the image.

    Attributes:
        spec: of an AIMProfile, without image, pull secrets and service account.
        is_primary: what the file says; ``None`` when it says nothing.
    """

    profile_id: str
    spec: JsonObject
    is_primary: bool | None = None

    @property
    def profile(self) -> AIMProfile:
        """The entry as an object, which can be matched and derived from."""
        return AIMProfile.model_validate({"metadata": {"name": self.profile_id}, "spec": self.spec})


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The profiles of an image.

    Attributes:
        problems: files that are no profile, each with why.
    """

    entries: tuple[Entry, ...] = ()
    aim_id: str = ""
    base_image: str = ""
    image: str = ""
    problems: tuple[str, ...] = ()


def catalogue_of(config_map: ConfigMap) -> Catalogue:
    """What a ConfigMap keeps; the files are read again each time, so that a better reader needs no Job.

    Raises:
        CatalogueError: it has no files of profiles.
    """
    data = config_map.data
    try:
        metadata = loads(data[_METADATA]) if _METADATA in data else {}
    except ValueError as error:
        raise CatalogueError(f"{_METADATA} is no JSON: {error}") from error
    if not isinstance(metadata, dict):
        raise CatalogueError(f"{_METADATA} is no JSON object")
    aim_id = str(metadata.get("aimId") or "")
    keys = sorted(key for key in data if key.startswith(_KEY_PREFIX) and key.endswith(".yaml"))
    if not keys and _METADATA not in data:
        raise CatalogueError(f"it has no key {_KEY_PREFIX}<path>.yaml")
    own = [key for key in keys if not key.startswith(f"{_KEY_PREFIX}{GENERAL}{_SLASH}")]
    entries, problems = _entries({key: data[key] for key in (own if aim_id and own else keys)}, aim_id)
    left_out = metadata.get("leftOut")
    unnamed = [f"{one}: its name is no key of a ConfigMap" for one in (left_out if isinstance(left_out, list) else ())]
    base_image, image = str(metadata.get("baseImage") or ""), str(metadata.get("sourceImage") or "")
    return Catalogue(entries, aim_id, base_image, image, (*problems, *unnamed))


def _entries(files: Mapping[str, str], aim_id: str) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    entries: list[Entry] = []
    problems: list[str] = []
    for key, text in files.items():
        try:
            entries.append(_entry(_stem(key), text, aim_id))
        except CatalogueError as error:
            problems.append(f"{_stem(key)}: {error}")
    return tuple(entries), tuple(problems)


@lru_cache(maxsize=1024)
def _entry(profile_id: str, text: str, aim_id: str) -> Entry:
    """Kept, as every pass over a model asks for all files of its image."""
    content = _load(text)
    metadata = content.get("metadata") if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(metadata, dict):
        raise CatalogueError("has no metadata")
    model_id = str(content.get("model_id") or "")
    if model_id and not re.fullmatch(MODEL_ID.pattern or "", model_id):
        raise CatalogueError(f"model_id {model_id!r} is no organisation/name")
    whose = str(content.get("aim_id") or "") or aim_id or model_id
    arguments, variables = content.get("engine_args") or {}, content.get("env_vars") or {}
    if not isinstance(arguments, dict) or not isinstance(variables, dict):
        raise CatalogueError("engine_args or env_vars is no mapping")
    primary = metadata.get("primary")
    spec = {
        **_accelerator(metadata),
        "profileId": profile_id,
        "engine": _text(metadata.get("engine")),
        "metric": _known_word(Metric, metadata.get("metric")),
        "precision": _known_word(Precision, metadata.get("precision")),
        "type": _known_word(ProfileType, metadata.get("type")),
        "variant": _variant(metadata.get("variant")),
        "autoSelectionPolicy": _known_word(AutoSelection, metadata.get("auto_selection_policy")),
        "features": _texts(metadata.get("features")),
        "engineArgs": arguments,
        "engineEnv": {name: _variable(name, value) for name, value in variables.items() if value is not None},
        **({"aimId": whose, "modelId": model_id, "modelSources": [_source(model_id)]} if model_id else {}),
    }
    said = {name: value for name, value in spec.items() if value not in (None, "", [], {})}
    return Entry(profile_id, said, bool(primary) if primary is not None else None)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """That of libyaml where it is there: ten times as fast. A date stays the text that it is."""

    yaml_implicit_resolvers: ClassVar = {
        first: [one for one in resolvers if one[0] != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def _load(text: str) -> object:
    """One file as JSON has it; an alias would let a few bytes become gigabytes where the arguments are written again.

    Raises:
        CatalogueError: it is no YAML, or has what JSON does not have.
    """
    try:
        content: object = yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise CatalogueError(f"is no YAML: {' '.join(str(error).split())[:200]}") from error
    return _as_json(content, set())


def _as_json(node: object, seen: set[int], depth: int = 0) -> object:
    if isinstance(node, dict | list):
        if id(node) in seen:
            raise CatalogueError("has YAML aliases, which are not read; write the values out")
        if depth > _DEEPEST:
            raise CatalogueError(f"is nested more than {_DEEPEST} deep")
        seen.add(id(node))
        if isinstance(node, list):
            return [_as_json(one, seen, depth + 1) for one in node]
        return {str(name): _as_json(one, seen, depth + 1) for name, one in node.items()}
    is_integer = isinstance(node, int) and abs(node) <= _LARGEST_INTEGER
    is_fraction = isinstance(node, float) and math.isfinite(node)
    if not (node is None or isinstance(node, str) or is_integer or is_fraction):
        what = str(node)[:40] if isinstance(node, int | float) else type(node).__name__
        raise CatalogueError(f"has a value that JSON does not have: {what}")
    return node


def _source(model_id: str) -> JsonObject:
    return {"modelId": model_id, "sourceUri": f"hf://{model_id}"}


def _accelerator(metadata: Mapping[str, Any]) -> JsonObject:
    """By the newer names, else the older ones, which are of GPUs (PR-093)."""
    model = _text(metadata.get("accelerator_model")) or _text(metadata.get("gpu"))
    count = metadata.get("accelerator_count")
    count = metadata.get("gpu_count") if count is None else count
    kind = _known_word(AcceleratorType, metadata.get("accelerator_type"))
    if model and not _fits(model):
        raise CatalogueError(f"accelerator {model!r} is no name of a label")
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= _MOST_IN_NODE):
        raise CatalogueError(f"accelerator_count {count!r} is no number of accelerators")
    mode = _text(metadata.get("accelerator_partitioning_mode"))
    return {
        "acceleratorModel": model or None,
        "acceleratorCount": count,
        "acceleratorType": kind or (AcceleratorType.GPU.value if model or count else None),
        "acceleratorPartitioningMode": mode if mode and _fits(mode) else None,
    }


def _fits(name: str) -> bool:
    return len(name) <= (ACCELERATOR_NAME.max_length or 0) and bool(re.fullmatch(ACCELERATOR_NAME.pattern or "", name))


def _known_word(values: type[OpenEnum], value: object) -> str | None:
    """A word that the API knows; others are as good as none."""
    text = _text(value).lower()
    return next((str(one) for one in values if str(one) == text and str(one) != Precision.AUTO), None)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)][:16] if isinstance(value, Sequence) else []


def _variant(value: object) -> str:
    text = _text(value)
    if text and not (len(text) <= (VARIANT.max_length or 0) and re.fullmatch(VARIANT.pattern or "", text)):
        raise CatalogueError(f"variant {text!r} has more than lower-case letters, digits and hyphens")
    return text


def _variable(name: str, value: object) -> str:
    if not _VARIABLE.fullmatch(name) or isinstance(value, dict | list):
        raise CatalogueError(f"env_vars {name!r} is no variable of an environment with a text")
    return str(value).lower() if isinstance(value, bool) else str(value)


def spec_hash(image: str, pull_secrets: Iterable[str], service_account: str) -> str:
    """Identity of a reading: with another one the image is read again (PR-091)."""
    texts = [image, *sorted(pull_secrets), service_account, COMMAND_VERSION]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def is_current(config_map: ConfigMap | None, wanted: str) -> bool:
    """Whether it keeps what is wanted."""
    found = config_map.metadata.annotations.get(labels.ANNOTATION_DISCOVERY_HASH) if config_map is not None else None
    return found == wanted
