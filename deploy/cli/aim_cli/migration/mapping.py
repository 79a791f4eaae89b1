"""Today's objects from old ones: rules by kind, then what today's schema has no place for (RC-130…RC-148)."""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, final

from aim_cli.migration.draft import (
    CONFIG_KINDS,
    KAIWO_CONFIG,
    NAMESPACE_CONFIG,
    OLD_GROUP,
    OLD_KINDS,
    Draft,
    Finding,
    OldKind,
    Origin,
    Weight,
    completed,
)
from aim_cli.migration.specs import (
    map_kaiwo_config,
    map_model,
    map_namespace_config,
    map_runtime_config,
    map_service,
    map_template,
)
from aim_domain import DEFAULT_NAME, TemplateScope, labels
from aim_domain.crd.structure import resource_schema
from controller_runtime import JsonObject, Kind

_S3: Final = "s3://"


@final
@dataclass(frozen=True, slots=True)
class Templates:
    """Templates that are known, old or today's, as namespace and name; the namespace of cluster templates is empty.

    Attributes:
        known: all of them.
        regenerated: those that the old operator made from models, which today's makes again under names of its own.
    """

    known: AbstractSet[tuple[str, str]] = frozenset()
    regenerated: AbstractSet[tuple[str, str]] = frozenset()

    def scope(self, namespace: str, name: str) -> TemplateScope | None:
        """Where a template of that name is found from a namespace, as a service would."""
        if (namespace, name) in self.known:
            return TemplateScope.NAMESPACE
        return TemplateScope.CLUSTER if ("", name) in self.known else None

    def report_regenerated(self, draft: Draft, field: str, name: object) -> None:
        """Remark that a reference leads to a template that gets another name."""
        if {(draft.origin.namespace, name), ("", name)} & self.regenerated:
            draft.report(
                Weight.CHANGED,
                field,
                f"template {name} was generated from a model and is generated again, under a name of today: "
                "correct the reference, or leave it out to have the best one selected",
            )


def map_template_cache(draft: Draft, templates: Templates) -> bool:
    """AIMTemplateCache; whether there is enough to make one of today."""
    name = draft.block().get("templateName")
    templates.report_regenerated(draft, "spec.templateName", name)
    scope = templates.scope(draft.origin.namespace, name) if isinstance(name, str) else None
    if scope is not None:
        draft.put(scope.value, "templateScope")
    if draft.block().get("templateScope"):
        return True
    draft.lose(
        "spec.templateName",
        f"no template {name} was found, so that the required templateScope is unknown; migrate the template as well, "
        "or write the AIMTemplateCache by hand",
    )
    return False


def map_model_cache(draft: Draft) -> None:
    """AIMModelCache, which is an AIMArtifact today."""
    draft.move(["downloadImage"], ["modelDownloadImage"])
    uri = draft.block().get("sourceUri")
    if isinstance(uri, str) and uri.startswith(_S3) and not draft.block().get("modelId"):
        draft.lose("spec.modelId", "an S3 source does not tell it; set spec.modelId (org/name) on the AIMArtifact")
    draft.report(
        Weight.CHANGED, "status", "volumes of old caches are not adopted: the weights are downloaded once more (RC-139)"
    )


_PREFIX: Final = f"{OLD_GROUP}/"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_OLD_MANAGER: Final = "aim-controller"
_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "template": (labels.TEMPLATE,),
    "model-id": (labels.MODEL,),
    "aim-image": (labels.MODEL,),
    "template.metric": (labels.TEMPLATE_METRIC,),
    "template.precision": (labels.TEMPLATE_PRECISION,),
    "service-name": (labels.SERVICE, labels.SERVICE_NAME),
}
_ORIGINS: Final = {
    "derived-template": labels.ORIGIN_DERIVED,
    "auto-generated": labels.ORIGIN_AUTO_GENERATED,
    "auto-created": labels.ORIGIN_AUTO_GENERATED,
}


def map_labels(old: JsonObject) -> JsonObject:
    """Labels under today's keys; what is not known stays as it is.

    >>> map_labels({"aim.silogen.ai/service-name": "chat", "team": "a"})
    {'aim.eai.amd.com/service': 'chat', 'aim.eai.amd.com/service.name': 'chat', 'team': 'a'}
    """
    new: JsonObject = {}
    for key, value in old.items():
        short = key.removeprefix(_PREFIX) if key.startswith(_PREFIX) else ""
        if short in _KEYS:
            new.update({today: value for today in _KEYS[short] if today not in new})
        elif short in _ORIGINS:
            new[labels.ORIGIN] = _ORIGINS[short]
        elif key == labels.APP_MANAGED_BY and value == _OLD_MANAGER:
            new[key] = labels.APP_MANAGED_BY_ENGINE
        else:
            new[key] = value
    return new


def map_annotations(old: JsonObject, *origins: Origin) -> JsonObject:
    """Annotations under today's keys, and where the object came from."""
    kept = {key: value for key, value in old.items() if key != _LAST_APPLIED}
    return {**map_labels(kept), labels.ANNOTATION_MIGRATED_FROM: ", ".join(origin.text for origin in origins)}


def without_unknown(kind: Kind[Any], spec: JsonObject, lose: Callable[[str], None]) -> JsonObject:
    """The spec as far as the kind has its fields; ``lose`` receives the path of each other."""
    known: JsonObject = _spec_schema(kind)
    kept = _known_members(spec, known, "spec", lose)
    return kept if isinstance(kept, dict) else {}


@cache
def _spec_schema(kind: Kind[Any]) -> JsonObject:
    schema: JsonObject = resource_schema(kind.model)["properties"]["spec"]
    return schema


def _known_members(value: object, schema: JsonObject, path: str, lose: Callable[[str], None]) -> object:
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return value
    if isinstance(value, dict) and "properties" in schema:
        properties = schema["properties"]
        for name in sorted(value.keys() - properties.keys()):
            lose(f"{path}.{name}")
        return {n: _known_members(v, properties[n], f"{path}.{n}", lose) for n, v in value.items() if n in properties}
    if isinstance(value, list) and "items" in schema:
        return [_known_members(item, schema["items"], f"{path}[{number}]", lose) for number, item in enumerate(value)]
    return value


@final
@dataclass(frozen=True, slots=True)
class Old:
    """An object of an old kind, as it was read."""

    kind: OldKind
    body: JsonObject

    @property
    def origin(self) -> Origin:
        """What the object is called in the report and in the annotation."""
        return Origin(self.kind.group, self.kind.kind, self.namespace, str(self.metadata.get("name") or ""))

    @property
    def namespace(self) -> str:
        """Empty for cluster-scoped kinds, whatever the metadata say."""
        return str(self.metadata.get("namespace") or "") if self.kind.namespaced else ""

    @property
    def metadata(self) -> JsonObject:
        """The metadata; empty where they are no object."""
        return _object(self.body.get("metadata"))

    @property
    def maker(self) -> str:
        """The object of the old operator that it was made for; empty for what a user wrote."""
        owners = self.metadata.get("ownerReferences") or []
        made_for = (f"{owner.get('kind')} {owner.get('name')}" for owner in owners if _is_old(owner))
        return next(made_for, "")


@final
@dataclass(frozen=True, slots=True)
class New:
    """An object of today, and what it was made from."""

    kind: Kind[Any]
    body: JsonObject
    origins: tuple[Origin, ...]

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str | None:
        """Its namespace; None when it is cluster-scoped."""
        namespace: str | None = self.body["metadata"].get("namespace")
        return namespace

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@final
@dataclass(frozen=True, slots=True)
class Migration:
    """The objects in the order in which they have to be written, and all remarks."""

    objects: tuple[New, ...]
    findings: tuple[Finding, ...]


_RULES: Final[dict[str, Callable[[Draft], None]]] = {
    "AIMModel": map_model,
    "AIMClusterModel": map_model,
    "AIMServiceTemplate": map_template,
    "AIMClusterServiceTemplate": map_template,
    "AIMService": map_service,
    "AIMRuntimeConfig": map_runtime_config,
    "AIMClusterRuntimeConfig": map_runtime_config,
    "AIMModelCache": map_model_cache,
    NAMESPACE_CONFIG.kind: map_namespace_config,
    KAIWO_CONFIG.kind: map_kaiwo_config,
}
_AS_DEFAULT: Final = frozenset({NAMESPACE_CONFIG.kind, KAIWO_CONFIG.kind})
_TEMPLATE_KINDS: Final = frozenset({"AIMServiceTemplate", "AIMClusterServiceTemplate"})


def migrate(olds: Iterable[Old], there: Iterable[tuple[str, str]] = ()) -> Migration:
    """Map all objects at once, because some refer to others.

    Args:
        olds: the old objects, in any order.
        there: namespace and name of today's templates, as far as known.
    """
    ordered = sorted(olds, key=lambda old: (OLD_KINDS.index(old.kind), _created(old), old.namespace, old.origin.name))
    old_templates = [old for old in ordered if old.kind.kind in _TEMPLATE_KINDS]
    templates = Templates(
        known=frozenset(there) | {(old.namespace, old.origin.name) for old in old_templates},
        regenerated=frozenset((old.namespace, old.origin.name) for old in old_templates if old.maker),
    )
    objects: dict[tuple[str, str | None, str], New] = {}
    findings: list[Finding] = []
    for old in ordered:
        new, about = _mapped(old, templates)
        findings += about
        if new is None:
            continue
        key = (new.kind.kind, new.namespace, new.name)
        if key not in objects:
            objects[key] = new
        elif new.kind.kind in CONFIG_KINDS:
            objects[key], conflicts = _joined(objects[key], new)
            findings += conflicts
        else:
            # Two versions of one object are not two halves of it.
            first = ", ".join(map(str, objects[key].origins))
            findings.append(Finding(Weight.CONFLICT, str(old.origin), "", f"left out: {first} is the same object"))
    return Migration(tuple(objects.values()), tuple(findings))


def _mapped(old: Old, templates: Templates) -> tuple[New | None, list[Finding]]:
    draft = Draft(old.origin, _object(old.body.get("spec")))
    if old.maker:
        draft.report(Weight.LEFT, "", f"made by the old operator for {old.maker}, and created again from its result")
        return None, draft.findings
    if not old.origin.name:
        draft.lose("metadata.name", "the object has no name")
        return None, draft.findings
    if old.kind.kind == "AIMTemplateCache":
        if not map_template_cache(draft, templates):
            return None, draft.findings
    else:
        _RULES[old.kind.kind](draft)
        templates.report_regenerated(draft, "spec.templateRef", draft.block("template").get("name"))
    spec = without_unknown(
        old.kind.today, draft.spec, lambda path: draft.lose(path, f"{old.kind.today} has no such field today")
    )
    if old.kind.kind in _AS_DEFAULT and not spec:
        return None, draft.findings
    return New(old.kind.today, _body(old, spec), (old.origin,)), draft.findings


def _body(old: Old, spec: JsonObject) -> JsonObject:
    as_default = old.kind.kind in _AS_DEFAULT
    labels = {} if as_default else map_labels(_object(old.metadata.get("labels")))
    annotations = {} if as_default else _object(old.metadata.get("annotations"))
    metadata: JsonObject = {
        "name": DEFAULT_NAME if as_default else old.origin.name,
        **({"namespace": old.namespace} if old.namespace else {}),
        **({"labels": labels} if labels else {}),
        "annotations": map_annotations(annotations, old.origin),
    }
    today = old.kind.today
    return {"apiVersion": today.api_version, "kind": today.kind, "metadata": metadata, "spec": spec}


def _joined(first: New, second: New) -> tuple[New, list[Finding]]:
    """Two sources of one config: the first, which is the more specific or the older one, wins."""
    body, conflicts = completed(first.body, second.body)
    origins = (*first.origins, *second.origins)
    annotations = map_annotations(body["metadata"]["annotations"], *origins)
    joined = replace(
        first, body={**body, "metadata": {**body["metadata"], "annotations": annotations}}, origins=origins
    )
    about, winner = str(second.origins[0]), first.origins[0]
    return joined, [
        Finding(Weight.CONFLICT, about, path, f"{winner} says something else, and wins") for path in conflicts
    ]


def _created(old: Old) -> str:
    return str(old.metadata.get("creationTimestamp") or "")


def _is_old(owner: object) -> bool:
    return isinstance(owner, dict) and str(owner.get("apiVersion", "")).startswith(f"{OLD_GROUP}/")


def _object(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}
