"""The way to the cluster for what runs for long or writes: with the client of the services."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aim_cli.cluster.refs import describe_error
from aim_cli.errors import UnreachableError
from controller_runtime import KubeClient, KubeError, load_connection
from controller_runtime.kube import ConfigError


@asynccontextmanager
async def cluster(kubeconfig: str | None, context: str | None) -> AsyncIterator[KubeClient]:
    """The cluster of a kubeconfig, chosen as kubectl does.

    Raises:
        UnreachableError: it cannot be asked, or refuses.
    """
    server = ""
    try:
        connection = await load_connection(kubeconfig, context)
        server = connection.server
        async with KubeClient(connection, service="cli") as kube:
            yield kube
    except (ConfigError, KubeError) as error:
        raise UnreachableError(describe_error(server, error)) from error
