"""Old objects from files, standard input or a cluster."""

import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final

import yaml

from aim_cli.errors import UnreadableError
from aim_cli.migration.findings import Finding, Origin, Weight
from aim_cli.migration.kinds import OLD_GROUPS, OLD_KINDS, OldKind, old_kind
from aim_cli.migration.mapping import Old
from controller_runtime import ApiError, JsonObject, KubeClient

STDIN: Final = "-"
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
_PAGE: Final = 500


class _Loader(yaml.SafeLoader):
    """Times stay texts, as they are in JSON."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@final
@dataclass(slots=True)
class Reading:
    """What was found.

    Attributes:
        olds: objects of the old kinds.
        findings: what cannot be mapped because it is no such object.
        others: how many objects of other kinds were passed over.
    """

    olds: list[Old] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)


def read_files(names: Iterable[str], namespace: str) -> Reading:
    """Read documents from files, folders (with what is below them) and ``-``.

    Args:
        namespace: of namespaced objects that name none.

    Raises:
        UnreadableError: a file does not exist or is no YAML.
    """
    reading = Reading()
    for name in names:
        for place, text in _texts(name):
            for document in _documents(place, text):
                _sort(document, namespace, reading)
    return reading


async def read_cluster(kube: KubeClient) -> Reading:
    """Read all objects of the old kinds; kinds that the cluster does not know have no objects."""
    reading = Reading()
    for kind in OLD_KINDS:
        async for body in _listed(kube, kind):
            reading.olds.append(Old(kind, body))
    return reading


async def _listed(kube: KubeClient, kind: OldKind) -> AsyncIterator[JsonObject]:
    token = ""
    while True:
        try:
            page = await kube.list(kind, limit=_PAGE, continue_token=token)
        except ApiError as error:
            if error.is_not_found:
                return
            raise
        for body in page.items:
            yield body
        token = page.continue_token
        if not token:
            return


def _texts(name: str) -> Iterator[tuple[str, str]]:
    try:
        if name == STDIN:
            yield "standard input", sys.stdin.read()
        elif Path(name).is_dir():
            for path in sorted(Path(name).rglob("*")):
                if path.suffix in _SUFFIXES and path.is_file():
                    yield str(path), path.read_text(encoding="utf-8")
        else:
            yield name, Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableError(f"{name}: {error}") from error


def _documents(place: str, text: str) -> Iterator[object]:
    try:
        yield from yaml.load_all(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise UnreadableError(f"{place}: {error}") from error


def _sort(document: object, namespace: str, reading: Reading) -> None:
    if document is None:
        return
    if not isinstance(document, dict):
        reading.others["documents that are no objects"] += 1
        return
    kind = str(document.get("kind") or "documents without a kind")
    items = document.get("items")
    if kind.endswith("List") and isinstance(items, list):
        for item in items:
            _sort(item, namespace, reading)
        return
    group = str(document.get("apiVersion") or "").partition("/")[0]
    known = old_kind(group, kind)
    if known is not None:
        reading.olds.append(Old(known, _placed(document, known, namespace)))
    elif group in OLD_GROUPS:
        metadata = document.get("metadata")
        name = str(metadata.get("name") or "") if isinstance(metadata, dict) else ""
        origin = Origin(group, kind, "", name)
        reading.findings.append(Finding(Weight.LOST, str(origin), "kind", f"{group} has no kind {kind} that is known"))
    else:
        reading.others[kind] += 1


def _placed(body: JsonObject, kind: OldKind, namespace: str) -> JsonObject:
    metadata = body.get("metadata")
    if not kind.namespaced or not isinstance(metadata, dict) or metadata.get("namespace"):
        return body
    return {**body, "metadata": {**metadata, "namespace": namespace}}
