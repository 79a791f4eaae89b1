"""What model-sync publishes, consumes and reconciles."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from aim_domain import AIMClusterModel, AIMClusterModelSource, labels, mirror_credentials
from aim_domain.parts import CLUSTER_MODELS, CLUSTER_RUNTIME_CONFIGS, MODEL_SOURCES
from aim_model_sync.catalogue import MODELS_BY_LABEL, MODELS_BY_OWNER, MODELS_BY_REPOSITORY, verdict
from aim_model_sync.effect_kinds import PULL_SECRETS, SERVICE_NAME, SYNC
from aim_model_sync.effects.pull_secrets import SecretReader
from aim_model_sync.effects.sync import SyncRunner
from aim_model_sync.metrics import source_readings
from aim_model_sync.reconcile import CONTROLLER, reconciler
from aim_model_sync.settings import ModelSyncSettings
from controller_runtime import (
    FACTS,
    ApiVerb,
    Change,
    EffectRunner,
    EffectType,
    KubeClient,
    Predicate,
    Reconciler,
    ServiceDefinition,
    Verb,
    Where,
    access,
    differs,
    writes,
)
from controller_runtime.kinds import SECRET
from oci_registry import Hubs, RegistryClient, open_client


def _belonging(model: AIMClusterModel) -> tuple[object, ...]:
    """Whose it is, and that its image cannot be resolved; no more of it matters (MS-245, MS-246, MS-316, MS-391)."""
    owners = tuple((owner.uid, owner.controller) for owner in model.metadata.owner_references)
    return (model.metadata.labels.get(labels.MODEL_SOURCE), owners, verdict(model))


def _is_irrelevant(change: Change[AIMClusterModelSource]) -> bool:
    """Own status writes need no pass: what follows from them was planned with them (MS-245)."""
    return not differs(change, _read_part)


def _read_part(source: AIMClusterModelSource) -> tuple[object, ...]:
    metadata = source.metadata
    paused = metadata.annotations.get(labels.ANNOTATION_PAUSED)
    return (source.uid, metadata.generation, metadata.deletion_timestamp, paused)


_CATALOGUE: Final = 24 << 20
"""Bytes of the models of a large source, all of which each of its passes reads: 6,000 of them with their metadata."""


_SECRETS: Final = (access(SECRET, ApiVerb.GET, where=Where.SYSTEM_NAMESPACE),)
"""Sources have no namespace: the Secrets that they name, and those of mirrors, lie in the operator's (FW-344)."""


SETTINGS: Final = ModelSyncSettings
"""The class of the settings that `definition` takes."""


def definition(settings: ModelSyncSettings) -> ServiceDefinition:
    """The declaration of the model-sync service."""
    return ServiceDefinition(
        name=SERVICE_NAME,
        publishes=(MODEL_SOURCES,),
        consumes=(MODEL_SOURCES, CLUSTER_MODELS, CLUSTER_RUNTIME_CONFIGS, FACTS),
        indexes=(MODELS_BY_LABEL, MODELS_BY_OWNER, MODELS_BY_REPOSITORY),
        predicates=(Predicate(CLUSTER_MODELS, _belonging),),
        reconcilers=(
            Reconciler(
                controller=CONTROLLER,
                part=MODEL_SOURCES,
                reconcile=reconciler(settings.system_namespace),
                ignores=_is_irrelevant,
            ),
        ),
        # Requests are limited per registry host; a hanging registry must not hold other sources up (MS-252).
        effects=(EffectType(SYNC, 256, _SECRETS), EffectType(PULL_SECRETS, 16, _SECRETS)),
        writes=(writes(CLUSTER_MODELS, Verb.CREATE),),
        readings=source_readings,
        kept_decoded=_CATALOGUE,
    )


@asynccontextmanager
async def effect_runners(settings: ModelSyncSettings, kube: KubeClient) -> AsyncIterator[Mapping[str, EffectRunner]]:
    """One registry client for all sources, so that its limits per host hold for all of them (MS-253)."""
    secrets = SecretReader(kube, settings.system_namespace)
    client = RegistryClient(
        settings,
        mirror_secrets=partial(mirror_credentials, kube, settings.system_namespace),
        api_server=kube.server,
        hubs=Hubs(settings.docker_hub_api_url, settings.github_api_url),
    )
    async with open_client(client, settings.registry_config) as registries:
        yield {SYNC: SyncRunner(registries, secrets, settings.sync_deadline), PULL_SECRETS: secrets.versions}
