"""The objects of YAML files. Imports nothing that decides: these are reported before (FW-728)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from aim_cli.cluster.refs import JsonObject
from aim_cli.errors import UnreadableError
from aim_cli.files import documents as read


@dataclass(frozen=True, slots=True)
class Document:
    """An object with a name, and the file that it is from."""

    file: str
    obj: JsonObject

    def __str__(self) -> str:
        return f"{self.obj.get('kind')} {self.obj['metadata']['name']}"


def documents(files: Iterable[str]) -> Iterator[Document]:
    """The objects of files.

    Raises:
        UnreadableError: a file does not exist or holds something else.
    """
    for place, obj in chain.from_iterable(read(one) for one in files):
        if obj is None:
            continue
        metadata = obj.get("metadata") if isinstance(obj, dict) else None
        if not isinstance(obj, dict) or not isinstance(metadata, dict) or not metadata.get("name"):
            raise UnreadableError(f"{place}: a document is no object with a name")
        yield Document(place, obj)
