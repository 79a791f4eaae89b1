"""What the API server refuses to tell somebody, in one line with what to do (FW-732).

Imports nothing heavy (FW-603).
"""

from typing import Final

from aim_cli.cluster.refs import Cluster
from aim_cli.errors import UnreachableError
from controller_runtime.kube.errors import ApiConnectionError, ApiError, KubeError

NO_SUCH_KIND: Final = "the cluster has no such kind"
_DISBELIEVED: Final = "CERTIFICATE_VERIFY_FAILED"
"""A word of OpenSSL."""
_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_ROLE: Final = "ask for a role that may"
_NARROWER: Final = "name a namespace where you may (-n), or ask for a role that may everywhere"


def require(cluster: Cluster, *whats: str, everywhere: bool = False) -> None:
    """Go on where at least one of these could be read: of a kind by its plural, of an object by its name.

    Args:
        everywhere: they were looked for in all namespaces, and the command can look into one.

    Raises:
        UnreachableError: none could.
    """
    why = [cluster.unasked[what] for what in whats if what in cluster.unasked]
    if whats and len(why) == len(whats):
        remedy = "install what defines it" if why[0] == NO_SUCH_KIND else _NARROWER if everywhere else _ROLE
        raise UnreachableError(f"{whats[0]} cannot be read: {why[0]}; {remedy}")


def remarks(cluster: Cluster) -> tuple[str, ...]:
    """What could not be found out, for standard error."""
    return tuple(f"not known: {what}: {why}" for what, why in cluster.unasked.items())


def told(server: str, error: KubeError) -> str:
    """An error of the API server."""
    if isinstance(error, ApiError) and error.code == _UNAUTHORIZED:
        return f"the API server {server} does not know you (401); renew the credentials of the kubeconfig"
    if isinstance(error, ApiError) and error.code == _FORBIDDEN:
        return f"the API server {server} refuses: {error.message}; ask for a role that may"
    if isinstance(error, ApiError) and error.code == _NOT_FOUND and not error.reason:
        return f"{server} is no API server: it has no {error.request.partition(' ')[2]}; check server in the kubeconfig"
    if isinstance(error, ApiConnectionError):
        return unanswered(error.host, error.failure.value, disbelieved=_DISBELIEVED in str(error))
    return str(error)


def unanswered(server: str, why: object, *, disbelieved: bool = False) -> str:
    """That a cluster does not answer, and why; perhaps because its certificate is not believed."""
    remedy = "check that it is reachable"
    if disbelieved or _DISBELIEVED in str(why):
        why = "its certificate is not believed"
        remedy = "check server and certificate-authority in the kubeconfig"
    return f"the cluster {server} does not answer: {why}; {remedy}"
