"""What is offered for a word that is half typed (FW-705). Whatever goes wrong, nothing is."""

# The command line knows these functions from its start (FW-555).
# ruff: noqa: PLC0415
import re
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from aim_cli.cluster.targets import Where
    from aim_domain.kind_names import KindName

_SERVICE: Final = "aimservice"
_MOST: Final = 500
_SECONDS: Final = 2.0
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_NAMES_ALONE: Final = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"}


def kinds(incomplete: str) -> list[str]:
    """Kinds that begin so, by their singular names."""
    from aim_cli.cluster.refs import KNOWN

    return sorted(kind.singular for kind in KNOWN if kind.singular.startswith(incomplete.lower()))


def names(context: typer.Context, incomplete: str) -> list[str]:
    """Objects of the kind that was typed before; where the command has none, services."""
    from aim_cli.cluster.targets import Where, known_kind

    given = context.params
    kind = known_kind(str(given.get("kind") or _SERVICE))
    namespace, slash, _ = incomplete.rpartition("/")
    if kind is None or (slash and not _NAME.fullmatch(namespace)):
        return []
    where = Where(given.get("kubeconfig"), given.get("context"), namespace if slash else given.get("namespace"))
    return [f"{namespace}{slash}{one}" for one in _names_of(kind, where)]


def namespaces(context: typer.Context) -> list[str]:
    """All of them, if the user may list them."""
    from aim_cli.cluster.targets import Where
    from aim_domain.kind_names import NAMESPACE

    return _names_of(NAMESPACE, Where(context.params.get("kubeconfig"), context.params.get("context")))


def _names_of(kind: "KindName", where: "Where") -> list[str]:
    """Names of objects, as far as they are known in time; shells evaluate what they are offered, so no other words."""
    found: list[str] = []
    # Credentials may come from a program, and an answer may drip: the limit is for all of it.
    asking = threading.Thread(target=_ask, args=(kind, where, found), daemon=True)
    asking.start()
    asking.join(_SECONDS)
    return [name for name in tuple(found) if _NAME.fullmatch(name)]


def _ask(kind: "KindName", where: "Where", found: list[str]) -> None:
    import json

    from aim_cli.cluster.asking import reading
    from controller_runtime.kind_names import collection_path

    # A key press never prints an error.
    with suppress(Exception), reading(where.kubeconfig, where.context) as cluster:
        path = collection_path(kind, where.default if kind.namespaced else None)
        headers = {**cluster.headers, **_NAMES_ALONE}
        answer = cluster.pool.request("GET", f"{cluster.server}{path}?limit={_MOST}", headers=headers, retries=False)
        found += [str(one["metadata"]["name"]) for one in json.loads(answer.data)["items"]]
