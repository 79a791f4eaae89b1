"""Services (RC-133, RC-148)."""

import re
from typing import Final

from aim_cli.migration.draft import Draft
from aim_cli.migration.findings import Weight
from aim_cli.migration.models import map_gpu_selector, tell_other_gpus
from aim_domain import CacheMode

_CANONICAL: Final = {"Always": CacheMode.SHARED, "Auto": CacheMode.SHARED, "Never": CacheMode.DEDICATED}
_OLD_MODEL: Final = re.compile(r"\.spec\.(?:aimImageName|model\.ref)(?![\w.])")
_OLD_TEMPLATE: Final = re.compile(r"\.spec\.templateRef(?![\w.])")
_RESOLVED_MODEL: Final = ".status.resolvedModel.name"


def map_service(draft: Draft) -> None:
    """AIMService."""
    draft.move(["aimImageName"], ["model", "name"])
    draft.move(["model", "ref"], ["model", "name"])
    draft.move(["templateRef"], ["template", "name"])
    draft.move(["routingAnnotations"], ["routing", "annotations"])
    _map_caching(draft)
    map_gpu_selector(draft, "overrides")
    tell_other_gpus(draft)
    by_name = bool(draft.block("model").get("name"))
    map_path_template(draft, ".spec.model.name" if by_name else _RESOLVED_MODEL)


def _map_caching(draft: Draft) -> None:
    asked = draft.take("cacheModel")
    if isinstance(asked, bool):
        draft.put((CacheMode.SHARED if asked else CacheMode.DEDICATED).value, "caching", "mode")
    caching = draft.block("caching")
    mode = caching.get("mode")
    if mode in _CANONICAL:
        caching["mode"] = _CANONICAL[mode].value


def map_path_template(draft: Draft, model: str = _RESOLVED_MODEL) -> None:
    """Name the fields that a path template refers to as they are called today.

    Args:
        model: today's field with the name of the model. A config does not know how its services name theirs.
    """
    routing = draft.block("routing")
    old = routing.get("pathTemplate")
    if not isinstance(old, str):
        return
    new = _OLD_TEMPLATE.sub(".spec.template.name", _OLD_MODEL.sub(model, old))
    if new != old:
        routing["pathTemplate"] = new
        draft.tell(Weight.CHANGED, "spec.routing.pathTemplate", f"rewritten from {old} to {new}: check the paths")
