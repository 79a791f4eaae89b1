"""Kinds of effects of this service, and what their facts hold."""

import hashlib
from enum import StrEnum
from typing import Final

from controller_runtime import canonical

SERVICE_NAME: Final = "discovery"
"""Name of the service; its facts carry it."""


class EffectKind(StrEnum):
    """What the service reads and writes elsewhere."""

    PULL_SECRETS = "pull-secrets"
    """Existence and versions of the Secrets that a model lists."""
    IMAGE_INSPECTION = "image-inspection"
    """Labels of an image."""
    JOB_LOG = "job-log"
    """What a finished discovery Job printed."""
    NODE_TAINT = "node-taint"
    """The taint of a node with GPUs, put or taken away."""


def inputs_key(owner_uid: str, inputs: object) -> str:
    """Key of an effect for these inputs of an object: other inputs make another fact."""
    return f"{owner_uid}/{hashlib.sha256(canonical(inputs)).hexdigest()[:16]}"
