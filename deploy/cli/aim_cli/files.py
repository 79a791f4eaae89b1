"""Documents in YAML files, in folders with what is below them, and on standard input."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from aim_cli.errors import UnreadableError

_STDIN: Final = "-"
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


class _Loader(yaml.SafeLoader):
    """Times stay texts, as they are in JSON."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def documents(name: str) -> Iterator[tuple[str, object]]:
    """Every document, and where it is from.

    Raises:
        UnreadableError: a file does not exist or is no YAML.
    """
    for place, text in _texts(name):
        try:
            yield from ((place, one) for one in yaml.load_all(text, Loader=_Loader))
        except yaml.YAMLError as error:
            raise UnreadableError(f"{place} is no YAML: {error}") from error


def _texts(name: str) -> Iterator[tuple[str, str]]:
    try:
        if name == _STDIN:
            yield "standard input", sys.stdin.read()
        elif Path(name).is_dir():
            for path in sorted(Path(name).rglob("*")):
                if path.suffix in _SUFFIXES and path.is_file():
                    yield str(path), path.read_text(encoding="utf-8")
        else:
            yield name, Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise UnreadableError(f"{name} cannot be read: {error.strerror}; name a file, a folder, or -") from error
    except UnicodeDecodeError as error:
        raise UnreadableError(f"{name} is no text in UTF-8: {error}") from error
