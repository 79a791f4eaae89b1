"""Profiles as people write them: by hand, and derived from those of a base image."""

from typing import Final

from controller_runtime import JsonObject

BASE: Final = "amdenterpriseai/aim-base:0.9.0"
"""An image with base profiles, for weights of one's own."""
PIPELINE: Final = {"aim.eai.amd.com/reconciler-pipeline": "profile"}
"""The annotation of a model whose image is asked for profiles."""
MINE: Final[JsonObject] = {
    "aimId": "team/mine",
    "modelId": "team/mine-7b",
    "image": BASE,
    "acceleratorModel": "MI300X",
    "acceleratorCount": 1,
    "acceleratorType": "gpu",
    "metric": "latency",
    "precision": "fp16",
    "modelSources": [{"modelId": "team/mine-7b", "sourceUri": "hf://team/mine-7b"}],
}


def profiles_of(base: str) -> JsonObject:
    """`spec.profiles` of a model that takes those of another one for weights of its own."""
    return {
        "derivedFrom": {"selector": {"role": "base", "modelRef": {"name": base}}},
        "versionPolicy": "latest",
        "overrides": {
            "aimId": "team/tuned",
            "modelId": "team/tuned-7b",
            "modelSources": [{"modelId": "team/tuned-7b", "sourceUri": "hf://team/tuned-7b"}],
        },
    }
