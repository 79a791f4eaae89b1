"""``aim migrate --storage``: objects in the stored version of their definition, and no other one listed (CC-353)."""

import asyncio
import time
from typing import Final

from rich.console import Console

from aim_cli.cluster.client import cluster
from aim_cli.errors import UnreachableError
from aim_cli.output import safe
from aim_domain.kind_names import DEFINITION, OWN, KindName
from controller_runtime import ApiError, JsonObject, KubeClient

_MANAGER: Final = "aim-migrate"
_PAGE: Final = 500
_TAKEN_IN_SECONDS: Final = 10.0
"""After which every API server has taken in a definition; what no write changes then is stored as it should."""
_BETWEEN_SECONDS: Final = 0.5
_MOST_ROUNDS: Final = 40
_LEFT: Final = 1
"""Exit code where an object was not written, so its definition keeps the other version."""


async def run(kubeconfig: str | None, context: str | None, *, dry_run: bool, out: Console) -> int:
    """Do it for each kind whose definition lists another version than it stores today; the exit code, 0 or 1.

    Raises:
        UnreachableError: the cluster cannot be asked.
    """
    code = 0
    async with cluster(kubeconfig, context) as kube:
        for kind in OWN:
            definition = await _definition(kube, kind)
            stored = next(one["name"] for one in definition["spec"]["versions"] if one["storage"])
            others = [one for one in definition["status"].get("storedVersions") or () if one != stored]
            if not others:
                out.print(f"{kind.resource} unchanged: it stores {stored} alone")
                continue
            written, refused = (0, []) if dry_run else await _rewrite(kube, kind)
            for name, why in refused:
                out.print(f"{kind.kind} {safe(name)} not written: {safe(why)}; correct it, then run this again")
            if refused:
                code = _LEFT
                continue
            if not dry_run:
                await _list_alone(kube, definition, stored)
            would = "would store" if dry_run else f"{written} objects written: it stores"
            out.print(f"{kind.resource} {would} {stored} alone, without {', '.join(others)}")
    return code


async def _list_alone(kube: KubeClient, definition: JsonObject, stored: str) -> None:
    metadata = definition["metadata"]
    await kube.merge_patch(
        DEFINITION,
        metadata["name"],
        None,
        {"status": {"storedVersions": [stored]}},
        resource_version=metadata["resourceVersion"],
        field_manager=_MANAGER,
        subresource="status",
    )


async def _definition(kube: KubeClient, kind: KindName) -> JsonObject:
    try:
        return await kube.get(DEFINITION, kind.resource)
    except ApiError as error:
        if error.is_not_found:
            raise UnreachableError(
                f"the cluster does not know {kind.kind}; kubectl apply --server-side -k deploy/crds"
            ) from None
        raise


async def _rewrite(kube: KubeClient, kind: KindName) -> tuple[int, list[tuple[str, str]]]:
    """Write each object as it is, which the API server stores in the version of today; how many, and which not.

    An API server takes in a definition a moment after it has it, and writes objects in the former version until then,
    which changes nothing of them. So they are written until that changes some, and once more then.
    """
    until, moved = time.monotonic() + _TAKEN_IN_SECONDS, False
    for _ in range(_MOST_ROUNDS):
        written, changed, refused = await _write_all(kube, kind)
        if refused or not written or (not changed and (moved or time.monotonic() > until)):
            break
        moved = moved or bool(changed)
        await asyncio.sleep(0 if changed else _BETWEEN_SECONDS)
    return written, refused


async def _write_all(kube: KubeClient, kind: KindName) -> tuple[int, int, list[tuple[str, str]]]:
    """How many objects were written, how many of them are stored in another form than before, and which were not."""
    written, changed, refused, token = 0, 0, [], ""
    while True:
        page = await kube.list(kind, limit=_PAGE, continue_token=token)
        for obj in page.items:
            name = "/".join(filter(None, (obj["metadata"].get("namespace"), obj["metadata"]["name"])))
            try:
                stored = await kube.replace(kind, obj, _MANAGER)
                changed += stored["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]
            except ApiError as error:
                # Another client that wrote it in between has stored it in the version of today; so has a deletion.
                if not error.is_conflict and not error.is_not_found:
                    refused.append((name, error.message))
                    continue
            written += 1
        token = page.continue_token
        if not token:
            return written, changed, refused
