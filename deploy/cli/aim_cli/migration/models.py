"""Models and templates (RC-132, RC-135, RC-145)."""

from typing import Final

from aim_cli.migration.draft import Draft
from aim_cli.migration.findings import Weight
from controller_runtime import JsonObject

_OTHER_GPUS: Final = "nvidia.com/gpu"


def map_model(draft: Draft) -> None:
    """AIMModel and AIMClusterModel."""
    enabled = draft.take("discovery", "enabled")
    templates = draft.take("discovery", "autoCreateTemplates")
    if enabled is not None:
        draft.put(enabled, "discovery", "extractMetadata")
    if enabled is False:
        draft.put(False, "discovery", "createServiceTemplates")
    elif templates is not None:
        draft.put(templates, "discovery", "createServiceTemplates")
    tell_other_gpus(draft)


def map_template(draft: Draft) -> None:
    """AIMServiceTemplate and AIMClusterServiceTemplate."""
    draft.move(["aimImageName"], ["modelName"])
    map_gpu_selector(draft)
    for source in draft.items("modelSources"):
        _rename(source, "name", "modelId")
        _rename(source, "source", "sourceUri")
        _rename(source, "sizeBytes", "size")
    tell_other_gpus(draft)


def map_gpu_selector(draft: Draft, *path: str) -> None:
    """``gpuSelector`` of a template or of a service's overrides, which is a part of ``hardware`` today."""
    for old, new in (("count", "requests"), ("model", "model"), ("resourceName", "resourceName")):
        draft.move([*path, "gpuSelector", old], [*path, "hardware", "gpu", new])


def tell_other_gpus(draft: Draft) -> None:
    """Resources are copied as they are, but only AMD's GPUs are looked for on the nodes."""
    for side in ("limits", "requests"):
        if _OTHER_GPUS in draft.block("resources", side):
            draft.tell(
                Weight.CHANGED,
                f"spec.resources.{side}[{_OTHER_GPUS}]",
                "copied, but availability is known of amd.com/gpu only: name the resource of your nodes",
            )


def _rename(item: JsonObject, old: str, new: str) -> None:
    if old in item:
        item.setdefault(new, item.pop(old))
