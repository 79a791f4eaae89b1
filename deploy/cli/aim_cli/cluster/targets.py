"""Which objects a command is about: kinds by any of their names, objects by ``namespace/name`` or as for kubectl."""

from dataclasses import dataclass
from difflib import get_close_matches
from shlex import quote
from typing import TYPE_CHECKING, Final

from aim_cli.cluster.refs import KNOWN, Ref
from aim_cli.errors import TargetError, UnreachableError
from aim_domain.kind_names import AIM_SERVICE, KindName

if TYPE_CHECKING:
    from aim_cli.cluster.asking import KubeReader


@dataclass(frozen=True, slots=True)
class Where:
    """Where to look, as the options say.

    Attributes:
        namespace: ``None`` = that of the context.
        everywhere: in all namespaces.
        selector: labels.
    """

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    everywhere: bool = False
    selector: str = ""

    @property
    def flags(self) -> str:
        """The options that have kubectl ask the same cluster, each behind a blank; none for the user's own choice."""
        named = {"kubeconfig": self.kubeconfig, "context": self.context}
        return "".join(f" --{name} {quote(value)}" for name, value in named.items() if value)

    @property
    def default(self) -> str:
        """The namespace of what names none.

        Raises:
            UnreachableError: there is a kubeconfig, and it cannot be read.
        """
        if self.namespace is not None:
            return self.namespace
        # Who names it needs no file.
        from controller_runtime.kube import ConfigError, default_namespace  # noqa: PLC0415

        try:
            return default_namespace(self.kubeconfig, self.context)
        except ConfigError as error:
            raise UnreachableError(str(error)) from error

    def scope(self, kind: KindName) -> str:
        """The namespace to look into; empty = everywhere."""
        return "" if self.everywhere or not kind.namespaced else self.default


HERE: Final = Where()
"""The cluster, context and namespace of the user's kubeconfig."""


def known_kind(word: str) -> KindName | None:
    """The kind that a word names; ``None`` of kinds that no command is asked about."""
    return next((kind for kind in KNOWN if word.lower() in kind.words), None)


def kind_called(word: str) -> KindName:
    """The kind that a word names.

    Raises:
        TargetError: there is none.
    """
    found = known_kind(word)
    if found is None:
        near = _nearest(word)
        known = ", ".join(sorted(kind.plural for kind in KNOWN))
        raise TargetError(f"there is no kind {word!r}; {f'did you mean {near}?' if near else f'known are {known}'}")
    return found


def _nearest(word: str) -> str:
    """The name of a kind that a word may be meant for; empty where it is like none."""
    words = [one for kind in KNOWN for one in kind.words]
    return next(iter(get_close_matches(word.lower(), words, n=1, cutoff=_ALIKE)), "")


_ALIKE: Final = 0.8
"""How like a kind a word is that is a mistyped kind rather than the name of an AIMService."""


def kind_and_name(kind: str, name: str | None) -> tuple[str, str | None]:
    """The two words of a command, also from `kind/name` and from the name of an AIMService alone (FW-600)."""
    first, slash, rest = kind.partition("/")
    if name is not None or known_kind(kind) is not None:
        return kind, name
    if slash and known_kind(first) is not None:
        return first, rest
    if _nearest(first):
        return (first, rest) if slash else (kind, None)
    return AIM_SERVICE.singular, kind


def target(kind: str, name: str | None, where: Where) -> Ref:
    """Resolve a kind and ``namespace/name`` or ``name``; also ``kind/name`` in one word, and an AIMService by its name.

    Raises:
        TargetError: no such kind, or a namespace is too many, or another one than the option's.
    """
    kind, name = kind_and_name(kind, name)
    resource = kind_called(kind)
    if name is None:
        raise TargetError(f"name of the {resource.kind} is missing")
    namespace, slash, plain = name.rpartition("/")
    named_well = plain and "/" not in namespace and (namespace or not slash)
    if not named_well or (slash and not resource.namespaced):
        form = "namespace/name" if resource.namespaced else "name"
        raise TargetError(f"{resource.kind} is named as {form}, got {name!r}")
    if slash and where.namespace not in (None, namespace):
        raise TargetError(f"{name} is not in the namespace {where.namespace}; leave out one of both")
    if not resource.namespaced:
        return Ref(resource, "", plain)
    return Ref(resource, namespace or where.default, plain)


def nothing(kind: KindName, where: Where) -> str:
    """That there is no object of a kind where one was looked for."""
    looked = where.scope(kind)
    place = f" in {looked}; -A looks in all namespaces" if looked else ""
    return f"there is no {kind.kind}{' with these labels' if where.selector else ''}{place}"


def targets(kind: str, name: str | None, where: Where, cluster: "KubeReader") -> list[Ref]:
    """The object that is named, or all of the kind where none is.

    Raises:
        TargetError: as of `target`; or a name with an option that means many.
    """
    kind, name = kind_and_name(kind, name)
    if name is not None:
        if where.everywhere or where.selector:
            raise TargetError("a name cannot be given together with -A or -l")
        return [target(kind, name, where)]
    resource = kind_called(kind)
    found = cluster.select(resource, where.scope(resource), where.selector)
    return [Ref(resource, one["metadata"].get("namespace") or "", one["metadata"]["name"]) for one in found]
