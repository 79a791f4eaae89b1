"""The artifact that a cache creates for a model source (AR-560…AR-566), and promotion (AR-553)."""

from typing import Final

from aim_artifacts.artifact_matching import promoted_from
from aim_artifacts.download_filter import parse_filter
from aim_artifacts.file_selection import filter_text
from aim_artifacts.model_sources import IndexedSource
from aim_domain import AIMArtifact, AIMTemplateCache, CacheMode, RuntimeConfigSpec, child_labels, labels, merge_env
from aim_domain.kinds import AIM_ARTIFACT
from aim_domain.naming import HashSource, Structured, derive_name, label_value
from aim_domain.parts import ARTIFACTS
from controller_runtime import Child, JsonObject, Patch, StatusValue, WriteMode, kind_of, loads, to_json
from controller_runtime.core import EnvVar

CONTROLLER: Final = "template-cache"
"""Name of the cache controller (FW-201)."""
_HASH_LENGTH: Final = 10
_DEDICATED: Final = "dedicated"


def build_artifact(cache: AIMTemplateCache, entry: IndexedSource, config: RuntimeConfigSpec) -> Child:
    """The artifact for one source; owned by a Dedicated cache, by nobody for a Shared one (AR-563)."""
    override = parse_filter(cache.metadata.annotations.get(labels.ANNOTATION_DOWNLOAD_FILTER))
    metadata: JsonObject = {
        "name": artifact_name(cache, entry),
        "namespace": cache.namespace,
        "labels": child_labels(
            _labels(cache, entry), parent=cache, controller=CONTROLLER, propagation=config.label_propagation
        ),
    }
    headroom = cache.metadata.annotations.get(labels.ANNOTATION_PVC_HEADROOM)
    if headroom is not None:
        metadata["annotations"] = {labels.ANNOTATION_PVC_HEADROOM: headroom}
    spec = _spec(cache, entry) | ({} if override is None else {"downloadFilter": override})
    body = kind_of({"metadata": metadata, "spec": spec}, AIM_ARTIFACT)
    return Child(ARTIFACTS, body, owned=cache.spec.mode == CacheMode.DEDICATED, mode=WriteMode.CREATE)


def artifact_name(cache: AIMTemplateCache, entry: IndexedSource) -> str:
    """Name of the artifact, equal to that of the existing Go operator (AR-023, AR-025)."""
    uri = entry.source.source_uri
    hashed: list[HashSource] = [uri, _env(cache, entry), cache.spec.storage_class_name or ""]
    if cache.spec.mode == CacheMode.DEDICATED:
        hashed += [_DEDICATED, cache.name]
    override = parse_filter(cache.metadata.annotations.get(labels.ANNOTATION_DOWNLOAD_FILTER))
    if override is not None:
        hashed.append(Structured({"downloadFilter": loads(filter_text(override))}))
    return derive_name([uri.replace(".", "-")], hashed, hash_length=_HASH_LENGTH)


def promote(cache: AIMTemplateCache, artifact: AIMArtifact) -> Patch:
    """Make an owned artifact shared: one guarded patch, nothing is downloaded again (AR-553, AR-556)."""
    metadata = artifact.metadata
    former = dict.fromkeys((*promoted_from(artifact), *(owner.uid for owner in metadata.owner_references)))
    body = {
        "metadata": {
            "ownerReferences": None,
            "labels": {labels.TEMPLATE_CACHE_NAME: label_value(cache.name)},
            "annotations": {labels.ANNOTATION_PROMOTED_FROM: ",".join(former)},
        }
    }
    why = f"share the artifact, because shared cache {cache.name} uses it"
    return Patch(ARTIFACTS, metadata.namespace, metadata.name, metadata.resource_version, body, why)


def hand_on_env(cache: AIMTemplateCache, entry: IndexedSource, artifact: AIMArtifact) -> Patch | None:
    """Give an artifact of the cache that is not Ready the env that the cache has now (AR-566).

    The name stands for the env that an artifact was made with. Once another env was handed on, the annotation says
    which name that would give, so that a correction in the artifact itself lasts until the cache changes again.
    """
    metadata, env = artifact.metadata, _env(cache, entry)
    is_ours = metadata.labels.get(labels.TEMPLATE_CACHE_NAME) == label_value(cache.name)
    if not is_ours or artifact.status.status is StatusValue.READY or artifact.spec.env == env:
        return None
    wanted = artifact_name(cache, entry)
    if metadata.annotations.get(labels.ANNOTATION_ENV_AS_OF, artifact.name) == wanted:
        return None
    body = {
        "metadata": {"annotations": {labels.ANNOTATION_ENV_AS_OF: wanted}},
        "spec": {"env": [to_json(variable) for variable in env]},
    }
    why = f"the env of cache {cache.name} has changed"
    return Patch(ARTIFACTS, metadata.namespace, metadata.name, metadata.resource_version, body, why)


def _labels(cache: AIMTemplateCache, entry: IndexedSource) -> dict[str, str]:
    return {
        labels.TEMPLATE_CREATED: labels.TRUE,
        labels.TEMPLATE_NAME: label_value(cache.spec.template_name),
        labels.TEMPLATE_SCOPE: cache.spec.template_scope.value,
        labels.TEMPLATE_INDEX: str(entry.index),
        labels.TEMPLATE_CACHE_NAME: label_value(cache.name),
    }


def _env(cache: AIMTemplateCache, entry: IndexedSource) -> tuple[EnvVar, ...]:
    return merge_env(cache.spec.env, entry.source.env)


def _spec(cache: AIMTemplateCache, entry: IndexedSource) -> JsonObject:
    given, source = cache.spec, entry.source
    env, secrets = _env(cache, entry), given.image_pull_secrets
    optional = {
        "modelId": source.model_id,
        "size": source.size,
        "runtimeConfigName": given.runtime_config_name,
        "modelDownloadImage": given.download_image,
        "env": [to_json(variable) for variable in env],
        "imagePullSecrets": [to_json(secret) for secret in secrets],
    }
    # An empty class is the cluster's default, an absent one that of the runtime config (AR-211).
    chosen = {} if given.storage_class_name is None else {"storageClassName": given.storage_class_name}
    return {"sourceUri": source.source_uri, **chosen, **{name: value for name, value in optional.items() if value}}
