"""Whether a service wants a cache, and what belongs to it (AR-464, AR-466)."""

from aim_artifacts.indexes import CACHES_BY_ARTIFACT, SERVICES_BY_TEMPLATE, wanting
from aim_domain import API_VERSION, AIMArtifact, AIMService, AIMTemplateCache, CacheMode, TemplateScope, labels
from aim_domain.parts import SERVICES, TEMPLATE_CACHES
from controller_runtime import Lookup, OwnerReference, View, scoped


def is_demanded(cache: AIMTemplateCache, view: View, *, in_doubt: bool = True) -> bool:
    """Whether a live service uses the cache, or would.

    Args:
        in_doubt: what counts while services cannot be looked up: by default nothing is taken from whom may need it.
    """
    if cache.spec.mode is CacheMode.DEDICATED:
        owners = [owner for owner in cache.metadata.owner_references if _is_service(owner)]
        return any(_is_live(owner, view.get(SERVICES, cache.namespace, owner.name), in_doubt) for owner in owners)
    scope = cache.spec.template_scope
    scopes = [scope] if scope in {TemplateScope.NAMESPACE, TemplateScope.CLUSTER} else list(TemplateScope)
    names = [scoped(cache.namespace, wanting(cache.spec.template_name, one.value)) for one in scopes]
    found = [view.select(SERVICES_BY_TEMPLATE, name) for name in names]
    return any(one.items for one in found) or (in_doubt and any(one.error for one in found))


def is_wanted(artifact: AIMArtifact, view: View) -> bool:
    """Whether the artifact belongs to a demanded cache: one that lists it, or, before it does, that made it."""
    listing = view.select(CACHES_BY_ARTIFACT, artifact.uid).items
    maker = artifact.metadata.labels.get(labels.TEMPLATE_CACHE_NAME)
    made = view.get(TEMPLATE_CACHES, artifact.namespace, maker).value if maker else None
    return any(is_demanded(cache, view) for cache in (*listing, *([made] if made is not None else ())))


def _is_service(owner: OwnerReference) -> bool:
    return owner.kind == "AIMService" and owner.api_version == API_VERSION


def _is_live(owner: OwnerReference, found: Lookup[AIMService], in_doubt: bool) -> bool:
    service = found.value
    if found.error is not None:
        return in_doubt
    return service is not None and service.uid == owner.uid and not service.deleting
