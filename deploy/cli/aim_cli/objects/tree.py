"""``aim tree``: everything that was made for an object, and what it uses, with states (FW-607). Pure but for what is
asked through `Cluster`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from aim_cli.answer import Answer
from aim_cli.cluster.refs import KNOWN, Cluster, JsonObject, Ref, ref_of, remarks, require
from aim_cli.cluster.states import Weight, state_of, weight_of
from aim_cli.errors import Exit
from aim_cli.why.blockers import blockers_of
from aim_domain import labels
from aim_domain.kind_names import (
    AIM_ARTIFACT,
    AIM_CLUSTER_MODEL,
    AIM_CLUSTER_PROFILE,
    AIM_CLUSTER_PROFILE_SET,
    AIM_CLUSTER_SERVICE_TEMPLATE,
    AIM_MODEL,
    AIM_PROFILE,
    AIM_PROFILE_CACHE,
    AIM_PROFILE_SET,
    AIM_SERVICE,
    AIM_SERVICE_TEMPLATE,
    AIM_TEMPLATE_CACHE,
    CONFIG_MAP,
    GATEWAY,
    HORIZONTAL_POD_AUTOSCALER,
    HTTP_ROUTE,
    INFERENCE_SERVICE,
    JOB,
    PERSISTENT_VOLUME_CLAIM,
    POD,
)

_CHILDREN: Final = (
    AIM_MODEL,
    AIM_CLUSTER_MODEL,
    AIM_SERVICE_TEMPLATE,
    AIM_CLUSTER_SERVICE_TEMPLATE,
    AIM_PROFILE_SET,
    AIM_CLUSTER_PROFILE_SET,
    AIM_PROFILE,
    AIM_CLUSTER_PROFILE,
    AIM_PROFILE_CACHE,
    AIM_TEMPLATE_CACHE,
    AIM_ARTIFACT,
    INFERENCE_SERVICE,
    HTTP_ROUTE,
    HORIZONTAL_POD_AUTOSCALER,
    JOB,
    POD,
    PERSISTENT_VOLUME_CLAIM,
    CONFIG_MAP,
)
"""Kinds that the platform, or what it makes, makes."""
_DEDICATED: Final = ("Dedicated", "Never")
"""Modes of caching in which a service shares no cache."""
_COLOURS: Final = {Weight.WELL: "black", Weight.UNDER_WAY: "darkorange", Weight.HURT: "red", Weight.BROKEN: "red"}


@dataclass(frozen=True, slots=True)
class Node:
    """One object in the tree.

    Attributes:
        relation: to the one above: ``made`` for it, or only ``used`` by it; empty at the root.
        state: ``missing`` where there is no such object.
        again: it stands elsewhere in the tree with all that belongs to it.
    """

    ref: Ref
    relation: str
    state: str
    reason: str = ""
    below: tuple["Node", ...] = ()
    again: bool = False

    @property
    def data(self) -> JsonObject:
        """For ``-o json``."""
        own = {"object": self.ref.data, "relation": self.relation, "state": self.state, "reason": self.reason}
        return {**own, "again": self.again, "below": [one.data for one in self.below]}

    @property
    def all(self) -> Iterator["Node"]:
        """It and all below it, from above."""
        yield self
        for one in self.below:
            yield from one.all


def tree(cluster: Cluster, root: Ref) -> Node | None:
    """The tree of an object; ``None`` if there is none."""
    obj = cluster.find(root)
    return None if obj is None else _Grower(cluster, set()).node(root, obj, "")


def answer(cluster: Cluster, node: Node | None, root: Ref) -> Answer:
    """The tree as data and as lines.

    Raises:
        UnreachableError: whether there is such an object may not be known.
    """
    if node is None:
        require(cluster, str(root))
        return Answer({}, (f"{root} does not exist",), Exit.ABSENT)
    names = tuple(dict.fromkeys(one.ref.argument for one in node.all))
    graph = tuple(dot(node).splitlines())
    return Answer(node.data, tuple(lines_of(node)), remarks=remarks(cluster), names=names, graph=graph)


def lines_of(node: Node, first: str = "", rest: str = "") -> Iterator[str]:
    """One line for each object, under the one above."""
    state = f"  {node.state}" if node.state else ""
    reason = f" ({node.reason})" if node.reason else ""
    used = "uses " if node.relation == "uses" else ""
    yield f"{first}{used}{node.ref}{state}{reason}{'  (above)' if node.again else ''}"
    for place, below in enumerate(node.below):
        last = place == len(node.below) - 1
        yield from lines_of(below, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def dot(node: Node) -> str:
    """The tree as a graph of Graphviz: what was made with a line, what is used with a dashed one."""
    lines = ["digraph aim {", '  rankdir=LR; node [shape=box, fontname="sans-serif"];']
    lines += list(dict.fromkeys(_graph(node)))
    return "\n".join([*lines, "}"])


def _graph(node: Node) -> Iterator[str]:
    label = "\\n".join((node.ref.kind.kind, _escaped(node.ref.name), _escaped(node.state or "")))
    if not node.again:
        yield f'  "{_escaped(str(node.ref))}" [label="{label}", color={_COLOURS[weight_of(node.state)]}];'
    for below in node.below:
        yield from _graph(below)
        style = " [style=dashed]" if below.relation == "uses" else ""
        yield f'  "{_escaped(str(node.ref))}" -> "{_escaped(str(below.ref))}"{style};'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


@dataclass(slots=True)
class _Grower:
    """Each object is opened once, so that rings end."""

    cluster: Cluster
    seen: set[Ref]

    def node(self, ref: Ref, obj: JsonObject, relation: str) -> Node:
        state = state_of(ref.kind, obj)
        if ref in self.seen:
            return Node(ref, relation, state, again=True)
        self.seen.add(ref)
        blockers = blockers_of(ref.kind, obj) if weight_of(state) is not Weight.WELL else ()
        reason = blockers[0].reason if blockers else ""
        children = list(self._children_of(ref, obj))
        # Of what it made and uses as well, that it made it says more.
        made_too = {one for one, _ in children}
        used = [self._node_of(one) for one in used_by(self.cluster, ref, obj) if one not in made_too and one != ref]
        made = [self.node(one, there, "made") for one, there in children]
        return Node(ref, relation, state, "" if reason == state else reason, (*used, *made))

    def _node_of(self, ref: Ref) -> Node:
        obj = self.cluster.find(ref)
        if obj is None:
            return Node(ref, "uses", "not known" if str(ref) in self.cluster.unasked else "missing")
        return self.node(ref, obj, "uses")

    def _children_of(self, ref: Ref, obj: JsonObject) -> Iterable[tuple[Ref, JsonObject]]:
        uid = obj["metadata"].get("uid") or ""
        for kind in _CHILDREN:
            if kind.namespaced is bool(ref.namespace) or not ref.namespace:
                # Pods of an InferenceService are found by their label.
                owner = "" if (ref.kind, kind) == (INFERENCE_SERVICE, POD) else uid
                for one in self.cluster.search(kind, ref.namespace, owner=owner):
                    if _is_made_for(one, uid) or _is_pod_of(ref, one, kind):
                        yield ref_of(kind, one), one


def _is_made_for(obj: JsonObject, uid: object) -> bool:
    return any(owner.get("uid") == uid for owner in obj["metadata"].get("ownerReferences") or ())


def _is_pod_of(ref: Ref, obj: JsonObject, kind: object) -> bool:
    """Between an InferenceService and its pods stands a Deployment that is left out."""
    if kind != POD or ref.kind != INFERENCE_SERVICE:
        return False
    return (obj["metadata"].get("labels") or {}).get(labels.KSERVE_INFERENCE_SERVICE) == ref.name


def used_by(cluster: Cluster, ref: Ref, obj: JsonObject) -> list[Ref]:
    """What an object uses: what it says; of a service also the caches of its template, as it names none that failed."""
    found = references(ref.kind, obj)
    if ref.kind != AIM_SERVICE:
        return found
    status = obj.get("status") or {}
    for field, kind, named in _CACHES:
        name = (status.get(field) or {}).get("name")
        if name and not any(one.kind == kind for one in found):
            caches = cluster.search(kind, ref.namespace)
            found += [ref_of(kind, one) for one in caches if _may_use(obj, one, named, name)]
    return found


_CACHES: Final = (
    ("resolvedTemplate", AIM_TEMPLATE_CACHE, "templateName"),
    ("resolvedProfile", AIM_PROFILE_CACHE, "profileName"),
)


def _may_use(service: JsonObject, cache: JsonObject, field: str, name: str) -> bool:
    """Whether a cache is of that template or profile, and shared or the service's own."""
    mode = ((service.get("spec") or {}).get("caching") or {}).get("mode")
    owners = [one for one in cache["metadata"].get("ownerReferences") or () if one.get("kind") == AIM_SERVICE.kind]
    own = _is_made_for(cache, service["metadata"].get("uid"))
    return cache["spec"].get(field) == name and (own or not (owners or mode in _DEDICATED))


def references(kind: object, obj: JsonObject) -> list[Ref]:
    """What an object says that it uses."""
    status, spec = obj.get("status") or {}, obj.get("spec") or {}
    namespace = obj["metadata"].get("namespace") or ""
    if kind == AIM_SERVICE:
        caches = status.get("cache") or {}
        reported = (
            status.get("resolvedModel"),
            status.get("resolvedTemplate"),
            status.get("resolvedProfile"),
            status.get("resolvedRuntimeConfig"),
            caches.get("templateCacheRef"),
            caches.get("profileCacheRef"),
        )
        return [ref for one in reported if one and (ref := _resolved(one)) is not None]
    if kind in (AIM_TEMPLATE_CACHE, AIM_PROFILE_CACHE):
        listed = (status.get("artifacts") or {}).values()
        return [Ref(AIM_ARTIFACT, namespace, one["name"]) for one in listed if one.get("name")]
    if kind == HTTP_ROUTE:
        parents = [one for one in spec.get("parentRefs") or () if one.get("kind", GATEWAY.kind) == GATEWAY.kind]
        return [Ref(GATEWAY, one.get("namespace") or namespace, one["name"]) for one in parents]
    return []


def _resolved(reported: JsonObject) -> Ref | None:
    name = str(reported.get("kind") or "").rpartition("/")[2]
    kind = next((kind for kind in KNOWN if kind.kind == name), None)
    return None if kind is None else Ref(kind, reported.get("namespace") or "", reported["name"])
