"""Which download filter applies to an artifact, and how it is pinned (AR-400…AR-409)."""

from aim_artifacts.file_selection import DEFAULT_FILTER, FilterError, filter_text, selection_of
from aim_artifacts.source import is_hugging_face
from aim_domain import AIMArtifact, DownloadFilter, RuntimeConfigSpec, labels
from controller_runtime import JsonObject, loads, to_json


def effective_filter(artifact: AIMArtifact, config: RuntimeConfigSpec) -> str:
    """JSON text for ``AIM_DOWNLOAD_FILTER``: pinned, else spec, else runtime config, else default (AR-400, AR-407)."""
    pinned = pinned_filter(artifact)
    if pinned is not None:
        return pinned
    storage = config.storage
    given = artifact.spec.download_filter or (storage.download_filter if storage else None)
    return filter_text(DEFAULT_FILTER if given is None else to_json(given))


def pinned_filter(artifact: AIMArtifact) -> str | None:
    """The filter of the artifact's first Job; an unreadable annotation counts as none."""
    text = artifact.metadata.annotations.get(labels.ANNOTATION_RESOLVED_DOWNLOAD_FILTER)
    value = parse_filter(text)
    return None if value is None else filter_text(value)


def filter_to_pin(artifact: AIMArtifact, config: RuntimeConfigSpec) -> str | None:
    """What to write into the annotation before the first Job; ``None`` when there is nothing to write (AR-407)."""
    if not is_hugging_face(artifact.spec.source_uri) or pinned_filter(artifact) is not None:
        return None
    return effective_filter(artifact, config)


def is_filter_ignored(artifact: AIMArtifact) -> bool:
    """Whether the artifact carries a filter that has no effect (AR-405)."""
    return artifact.spec.download_filter is not None and not is_hugging_face(artifact.spec.source_uri)


def parse_filter(text: str | None) -> JsonObject | None:
    """The filter in an annotation; ``None`` when it is absent or unusable."""
    if not text:
        return None
    try:
        value = loads(text)
        selection_of(value)
    except (ValueError, FilterError):
        return None
    return value


def same_filter(one: DownloadFilter | None, other: JsonObject) -> bool:
    """Whether two filters mean the same: presence counts, the order of patterns does not (AR-546)."""
    if one is None:
        return False
    return _form(to_json(one)) == _form(other)


def _form(value: JsonObject) -> tuple[list[str] | None, list[str] | None]:
    include, exclude = value.get("include"), value.get("exclude")
    return None if include is None else sorted(include), None if exclude is None else sorted(exclude)
