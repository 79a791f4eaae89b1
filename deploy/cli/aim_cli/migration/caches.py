"""Template caches and model caches (RC-135)."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, final

from aim_cli.migration.draft import Draft
from aim_cli.migration.findings import Weight
from aim_domain import TemplateScope

_S3: Final = "s3://"


@final
@dataclass(frozen=True, slots=True)
class Templates:
    """Templates that are known, old or today's, as namespace and name; the namespace of cluster templates is empty.

    Attributes:
        known: all of them.
        regenerated: those that the old operator made from models, which today's makes anew under names of its own.
    """

    known: AbstractSet[tuple[str, str]] = frozenset()
    regenerated: AbstractSet[tuple[str, str]] = frozenset()

    def scope(self, namespace: str, name: str) -> TemplateScope | None:
        """Where a template of that name is found from a namespace, as a service would."""
        if (namespace, name) in self.known:
            return TemplateScope.NAMESPACE
        return TemplateScope.CLUSTER if ("", name) in self.known else None

    def tell_regenerated(self, draft: Draft, field: str, name: object) -> None:
        """Remark that a reference leads to a template that gets another name."""
        if {(draft.origin.namespace, name), ("", name)} & self.regenerated:
            draft.tell(
                Weight.CHANGED,
                field,
                f"template {name} was generated from a model and is generated again, under a name of today: "
                "correct the reference, or leave it out to have the best one selected",
            )


def map_template_cache(draft: Draft, templates: Templates) -> bool:
    """AIMTemplateCache; whether there is enough to make one of today."""
    name = draft.block().get("templateName")
    templates.tell_regenerated(draft, "spec.templateName", name)
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
    draft.tell(
        Weight.CHANGED, "status", "volumes of old caches are not adopted: the weights are downloaded once more (RC-139)"
    )
