"""What model-sync publishes, consumes and reconciles."""

from functools import partial
from typing import Final

from aim_domain import AIMClusterModel, AIMClusterModelSource, labels
from aim_domain.parts import CLUSTER_MODELS, CLUSTER_RUNTIME_CONFIGS, MODEL_SOURCES
from aim_model_sync import SERVICE_NAME
from aim_model_sync.catalogue import MODELS_BY_LABEL, MODELS_BY_OWNER, MODELS_BY_REPOSITORY, verdict
from aim_model_sync.metrics import source_readings
from aim_model_sync.reconcile import CONTROLLER, reconciler
from aim_model_sync.settings import ModelSyncSettings
from aim_model_sync.sync import PULL_SECRETS, SYNC, open_clients
from controller_runtime import (
    FACTS,
    Change,
    Predicate,
    Reconciler,
    ServiceDefinition,
    Verb,
    differs,
    writes,
)


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
        effects=(SYNC, PULL_SECRETS),
        clients=partial(open_clients, settings),
        writes=(writes(CLUSTER_MODELS, Verb.CREATE),),
        readings=source_readings,
        kept_decoded=_CATALOGUE,
    )
