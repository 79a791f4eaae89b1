"""Labels and annotations (RC-127, RC-136)."""

from typing import Final

from aim_cli.migration.findings import Origin
from aim_cli.migration.kinds import OLD_GROUP
from aim_domain import labels
from controller_runtime import JsonObject

_PREFIX: Final = f"{OLD_GROUP}/"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_OLD_MANAGER: Final = "aim-controller"
_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "template": (labels.TEMPLATE,),
    "model-id": (labels.MODEL,),
    "aim-image": (labels.MODEL,),
    "template.metric": (labels.TEMPLATE_METRIC,),
    "template.precision": (labels.TEMPLATE_PRECISION,),
    "service-name": (labels.SERVICE, labels.SERVICE_NAME),
}
_ORIGINS: Final = {
    "derived-template": labels.ORIGIN_DERIVED,
    "auto-generated": labels.ORIGIN_AUTO_GENERATED,
    "auto-created": labels.ORIGIN_AUTO_GENERATED,
}


def map_labels(old: JsonObject) -> JsonObject:
    """Labels under today's keys; what is not known stays as it is.

    >>> map_labels({"aim.silogen.ai/service-name": "chat", "team": "a"})
    {'aim.eai.amd.com/service': 'chat', 'aim.eai.amd.com/service.name': 'chat', 'team': 'a'}
    """
    new: JsonObject = {}
    for key, value in old.items():
        short = key.removeprefix(_PREFIX) if key.startswith(_PREFIX) else ""
        if short in _KEYS:
            new.update({today: value for today in _KEYS[short] if today not in new})
        elif short in _ORIGINS:
            new[labels.ORIGIN] = _ORIGINS[short]
        elif key == labels.APP_MANAGED_BY and value == _OLD_MANAGER:
            new[key] = labels.APP_MANAGED_BY_ENGINE
        else:
            new[key] = value
    return new


def map_annotations(old: JsonObject, *origins: Origin) -> JsonObject:
    """Annotations under today's keys, and where the object came from."""
    kept = {key: value for key, value in old.items() if key != _LAST_APPLIED}
    return {**map_labels(kept), labels.ANNOTATION_MIGRATED_FROM: ", ".join(origin.text for origin in origins)}
