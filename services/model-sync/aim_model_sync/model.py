"""The AIMClusterModel made of a candidate (MS-213…MS-229)."""

from typing import Final

from aim_domain import AIMClusterModelSource, LabelPropagation, child_labels, labels
from aim_domain.kinds import AIM_CLUSTER_MODEL
from aim_domain.naming import label_value
from aim_domain.parts import CLUSTER_MODELS
from aim_model_sync.selection import model_name
from controller_runtime import Child, JsonObject, WriteMode, kind_of, to_json
from oci_registry import ImageReference

CONTROLLER: Final = "cluster-model-source"
"""Name of the controller in labels and Events (FW-201)."""


def build_model(source: AIMClusterModelSource, image: ImageReference, propagation: LabelPropagation | None) -> Child:
    """The model; written once and never changed (MS-230, MS-231)."""
    own = {
        labels.MODEL_SOURCE: label_value(source.name),
        labels.ORIGIN: labels.ORIGIN_AUTO_GENERATED,
        # Named here, because a label of the source must not replace it (MS-226).
        labels.APP_MANAGED_BY: f"aim-{CONTROLLER}-controller",
    }
    metadata: JsonObject = {
        "name": model_name(image),
        "labels": child_labels(own, parent=source, controller=CONTROLLER, propagation=propagation),
        "annotations": {
            labels.ANNOTATION_SOURCE_REGISTRY: image.repository.registry,
            labels.ANNOTATION_SOURCE_REPOSITORY: image.repository.path,
            labels.ANNOTATION_SOURCE_TAG: image.version,
        },
    }
    spec: JsonObject = {"image": str(image)}
    if source.spec.image_pull_secrets:
        spec["imagePullSecrets"] = [to_json(secret) for secret in source.spec.image_pull_secrets]
    return Child(
        CLUSTER_MODELS, kind_of({"metadata": metadata, "spec": spec}, AIM_CLUSTER_MODEL), mode=WriteMode.CREATE
    )
