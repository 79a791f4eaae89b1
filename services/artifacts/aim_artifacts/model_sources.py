"""Which model sources a cache keeps (AR-536, AR-537, AR-564)."""

from collections.abc import Sequence
from dataclasses import dataclass

from aim_domain import ModelSource


@dataclass(frozen=True, slots=True)
class IndexedSource:
    """A model source and its position in the full list."""

    index: int
    source: ModelSource


@dataclass(frozen=True, slots=True)
class SourceList:
    """Sources to keep, and model ids that were given more than once."""

    sources: tuple[IndexedSource, ...]
    duplicates: tuple[str, ...]


def sources_to_keep(of_cache: Sequence[ModelSource], of_template: Sequence[ModelSource]) -> SourceList:
    """The cache's own list wins over the template's; of several entries for one model the first counts."""
    first: dict[str, IndexedSource] = {}
    duplicates: dict[str, None] = {}
    for index, source in enumerate(of_cache or of_template):
        if source.model_id in first:
            duplicates[source.model_id] = None
        else:
            first[source.model_id] = IndexedSource(index, source)
    return SourceList(tuple(first.values()), tuple(duplicates))
