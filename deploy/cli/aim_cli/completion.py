"""What a shell offers for a word that is half typed (FW-705). Whatever goes wrong, it offers nothing."""

# The command line knows these functions from its start (FW-555).
# ruff: noqa: PLC0415
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from aim_cli.cluster.resources import Resource
    from aim_cli.cluster.targets import Where

_SERVICE: Final = "aimservice"
_MOST: Final = 500
_SECONDS: Final = 2.0
_NAMES_ALONE: Final = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"}


def kinds(incomplete: str) -> list[str]:
    """Kinds that begin so, by their singular names."""
    from aim_cli.cluster.resources import KNOWN

    return sorted(kind.singular for kind in KNOWN if kind.singular.startswith(incomplete.lower()))


def names(context: typer.Context, incomplete: str) -> list[str]:
    """Objects of the kind that was typed before; where the command has none, services."""
    from aim_cli.cluster.targets import Where, known_kind

    given = context.params
    kind = known_kind(str(given.get("kind") or _SERVICE))
    if kind is None:
        return []
    namespace, slash, _ = incomplete.rpartition("/")
    where = Where(given.get("kubeconfig"), given.get("context"), given.get("namespace"))
    return [f"{namespace}{slash}{one}" for one in _found(kind, where, namespace if slash else None)]


def namespaces(context: typer.Context) -> list[str]:
    """All of them, if the user may list them."""
    from aim_cli.cluster.resources import NAMESPACE
    from aim_cli.cluster.targets import Where

    return _found(NAMESPACE, Where(context.params.get("kubeconfig"), context.params.get("context")), None)


def _found(kind: "Resource", where: "Where", namespace: str | None) -> list[str]:
    import json

    import urllib3

    from aim_cli.cluster.asking import reading
    from aim_cli.errors import CliError
    from controller_runtime.kube.errors import KubeError
    from controller_runtime.kube.kinds import collection_path

    try:
        scope = (where.default if namespace is None else namespace) if kind.namespaced else None
        with reading(where.kubeconfig, where.context) as cluster:
            url = f"{cluster.server}{collection_path(kind, scope)}?limit={_MOST}"
            headers = {**cluster.headers, **_NAMES_ALONE}
            answer = cluster.pool.request("GET", url, headers=headers, timeout=_SECONDS, retries=False)
            return [str(one["metadata"]["name"]) for one in json.loads(answer.data).get("items") or ()]
    except (CliError, KubeError, urllib3.exceptions.HTTPError, OSError, ValueError):
        return []
