"""What the client must know of a kind to build its URLs."""

from typing import Protocol
from urllib.parse import quote


class ResourceKind(Protocol):
    """Coordinates of one Kubernetes kind; any frozen record with these attributes will do."""

    @property
    def group(self) -> str:
        """API group; empty for the core group."""

    @property
    def version(self) -> str:
        """API version, such as ``v1alpha1``."""

    @property
    def plural(self) -> str:
        """Name in URLs, such as ``aimservices``."""

    @property
    def kind(self) -> str:
        """Name in objects, such as ``AIMService``."""

    @property
    def namespaced(self) -> bool:
        """Whether objects live in a namespace."""


def api_version(kind: ResourceKind) -> str:
    """The ``apiVersion`` of the kind's objects."""
    return f"{kind.group}/{kind.version}" if kind.group else kind.version


def resource_name(kind: ResourceKind) -> str:
    """``plural.group``, the name of a resource in metrics and messages."""
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def collection_path(kind: ResourceKind, namespace: str | None) -> str:
    """URL path of the kind's objects; all namespaces when none is given."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    if namespace is None:
        return f"{root}/{kind.plural}"
    if not kind.namespaced:
        raise ValueError(f"{kind.kind} is cluster-scoped, but namespace {namespace!r} was given")
    return f"{root}/namespaces/{_segment(kind, 'namespace', namespace)}/{kind.plural}"


def object_path(kind: ResourceKind, name: str, namespace: str | None, subresource: str | None = None) -> str:
    """URL path of one object or of its subresource.

    Raises:
        ValueError: the name is none, or the namespace does not fit the kind's scope. Without a name the path
            would address the whole collection, which for a delete is a catastrophe.
    """
    if kind.namespaced and not namespace:
        raise ValueError(f"{kind.kind} {name}: a namespaced kind needs a namespace")
    path = f"{collection_path(kind, namespace)}/{_segment(kind, 'name', name)}"
    return f"{path}/{subresource}" if subresource else path


def _segment(kind: ResourceKind, role: str, text: str) -> str:
    # Dots are removed from paths together with the segment before them, on our side as on that of any proxy.
    if text in {"", ".", ".."}:
        raise ValueError(f"{kind.kind}: {text!r} is not a {role}")
    return quote(text, safe="")
