"""Objects by kind and name, and what the API server refuses to say. Imports nothing heavy (FW-684, FW-735)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from aim_cli.errors import UnreachableError
from aim_domain.kind_names import (
    CONFIG_MAP,
    DEPLOYMENT,
    EVENT,
    GATEWAY,
    HORIZONTAL_POD_AUTOSCALER,
    HTTP_ROUTE,
    INFERENCE_SERVICE,
    JOB,
    LEASE,
    NAMESPACE,
    NODE,
    OWN,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    KindName,
)
from controller_runtime import ApiError, KubeError
from controller_runtime.kube import ApiConnectionError

KNOWN: Final = (
    *OWN,
    INFERENCE_SERVICE,
    HTTP_ROUTE,
    GATEWAY,
    POD,
    JOB,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    CONFIG_MAP,
    NAMESPACE,
    EVENT,
    HORIZONTAL_POD_AUTOSCALER,
    LEASE,
    DEPLOYMENT,
)
"""What a user may ask about."""


JsonObject: TypeAlias = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ref:
    """An object by its name; `namespace` is empty in the cluster's scope."""

    kind: KindName
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind.kind} {self.name}"

    @property
    def argument(self) -> str:
        """For ``-o name``: one word that every command takes (FW-600, FW-880)."""
        return "/".join(filter(None, (self.kind.singular, self.namespace, self.name)))

    @property
    def data(self) -> JsonObject:
        """For ``-o json``."""
        named = {"kind": self.kind.kind, "namespace": self.namespace, "name": self.name}
        return {key: value for key, value in named.items() if value}


def ref_of(kind: KindName, obj: JsonObject) -> Ref:
    """The name of an object that was read."""
    return Ref(kind, obj["metadata"].get("namespace") or "", obj["metadata"]["name"])


class Cluster(Protocol):
    """What is asked about objects."""

    @property
    def unasked(self) -> Mapping[str, str]:
        """What could not be read so far, and why."""

    def find(self, ref: Ref) -> JsonObject | None:
        """The object; ``None`` if there is none."""

    def search(
        self, kind: KindName, namespace: str = "", labels: str = "", fields: str = "", owner: str = ""
    ) -> list[JsonObject]:
        """Objects of a kind, in a namespace if one is given; none where the kind is unknown.

        Labels, fields and the UID of an owner leave out what need not be sent; more may come.
        """

    def each(self, kind: KindName, namespace: str, make: Callable[[KindName, JsonObject], T]) -> list[T]:
        """What a function makes of each object of a kind.

        It is given nothing else, so that what it made of a version may be kept.
        """


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


def describe_error(server: str, error: KubeError) -> str:
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
