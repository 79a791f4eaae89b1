"""Installs custom resource definitions and waits until their objects can be used."""

import asyncio
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

from aim_local.assets import Definitions, Toolset
from aim_local.supervision.process import StackError
from controller_runtime import ApiError, JsonObject, KubeClient, Request, Transport, loads
from controller_runtime.kind_names import DEFINITION
from controller_runtime.kube import Connection
from embedded_apiserver import EXTERNAL_CRDS
from embedded_apiserver.controlplane import load_crds

MANAGER: Final = "aim-local"
_UPSTREAM: Final = (Definitions.KSERVE, Definitions.GATEWAY, Definitions.KEDA)
_OPENTELEMETRY: Final = EXTERNAL_CRDS / "opentelemetry.yaml"
"""The operator publishes its definitions in no Go module; the embedded control plane's are used."""
_RETRY: Final = 0.1


def all_definitions(toolset: Toolset, own: Path) -> list[JsonObject]:
    """The platform's own definitions (folder ``own``) and those of everything that it uses.

    Raises:
        AssetError: upstream's were not copied.
    """
    upstream = [definition for one in _UPSTREAM for definition in toolset.definitions(one)]
    return [*load_crds(own), *load_crds(_OPENTELEMETRY), *upstream]


async def install(connection: Connection, definitions: Iterable[JsonObject], within: float) -> None:
    """Create the definitions; all their objects can be used when this returns.

    Raises:
        ApiError: one is refused.
        StackError: they can't be used ``within`` so many seconds.
    """
    listed = list(definitions)
    try:
        async with asyncio.timeout(within):
            await _create(connection, listed)
            await _until_all_served(connection, listed)
    except TimeoutError:
        raise StackError(
            f"kube-apiserver did not serve all of {len(listed)} definitions within {within:g} s; "
            "see its log, or give it a longer start_timeout on a busy machine"
        ) from None


async def _create(connection: Connection, definitions: Iterable[JsonObject]) -> None:
    async with KubeClient(connection, service=MANAGER) as client, asyncio.TaskGroup() as group:
        for one in definitions:
            group.create_task(client.create(DEFINITION, one, MANAGER))


async def _until_all_served(connection: Connection, definitions: Iterable[JsonObject]) -> None:
    async with Transport(connection, MANAGER) as transport, asyncio.TaskGroup() as group:
        for version, plurals in sorted(_served(definitions).items()):
            group.create_task(_until_served(transport, version, plurals))


async def _until_served(transport: Transport, version: str, plurals: AbstractSet[str]) -> None:
    # A kind is served some time after its definition says `Established`; only discovery tells when.
    while True:
        if plurals <= await _discovered(transport, version):
            return
        await asyncio.sleep(_RETRY)


async def _discovered(transport: Transport, version: str) -> AbstractSet[str]:
    try:
        found = loads(await transport.call(Request("get", "GET", f"/apis/{version}", "discovery")))
    except ApiError as error:
        if error.code != 404:
            raise
        return frozenset()
    return frozenset(str(one["name"]) for one in found["resources"])


def _served(definitions: Iterable[JsonObject]) -> dict[str, set[str]]:
    """Plural names by API version."""
    found: dict[str, set[str]] = {}
    for spec in (one["spec"] for one in definitions):
        for version in (one["name"] for one in spec["versions"] if one["served"]):
            found.setdefault(f"{spec['group']}/{version}", set()).add(spec["names"]["plural"])
    return found
