"""Old objects from files or a cluster."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Final, final

from aim_cli.files import documents
from aim_cli.migration.findings import Finding, Origin, Weight
from aim_cli.migration.kinds import OLD_GROUPS, OLD_KINDS, OldKind, old_kind
from aim_cli.migration.mapping import Old
from controller_runtime import ApiError, JsonObject, KubeClient

_PAGE: Final = 500


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
        for _, document in documents(name):
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
