"""A changed env reaches the downloads of a cache that is not Ready yet, such as a corrected token (SV-269)."""

from aim_domain import AIMService, AIMTemplateCache, labels
from aim_domain.naming import optional_label_value
from aim_domain.parts import TEMPLATE_CACHES
from aim_serving.references import Template
from aim_serving.template_cache import cache_env
from controller_runtime import Patch, StatusValue, to_json


def env_patches(service: AIMService, template: Template | None, cache: AIMTemplateCache | None) -> tuple[Patch, ...]:
    """The patch of a cache that the service made, if its env is another by now; a Ready cache stays (SV-129)."""
    if template is None or cache is None or not _is_unfinished_of(cache, service):
        return ()
    env = cache_env(service, template)
    if env == tuple(cache.spec.env):
        return ()
    body = {"spec": {"env": [to_json(variable) for variable in env] or None}}
    version = cache.metadata.resource_version
    return (Patch(TEMPLATE_CACHES, cache.namespace, cache.name, version, body, "the env of its downloads changed"),)


def _is_unfinished_of(cache: AIMTemplateCache, service: AIMService) -> bool:
    maker = cache.metadata.labels.get(labels.SERVICE)
    made = maker is not None and maker == optional_label_value(service.name)
    return made and not cache.deleting and cache.status.status is not StatusValue.READY
