"""Lists which claims the pods of a namespace mount (AR-480)."""

from typing import Final

from aim_artifacts.limits.mounts import MountedClaims
from controller_runtime import (
    Category,
    ClassifiedError,
    Effect,
    EffectError,
    JsonObject,
    KubeClient,
    KubeError,
    Verb,
    classify,
    to_json,
)
from controller_runtime.kinds import POD

_PAGE: Final = 500
_MOST_PAGES: Final = 200
_ENDED: Final = frozenset({"Succeeded", "Failed"})


class MountReader:
    """Effect ``mounted-claims``."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def __call__(self, effect: Effect) -> JsonObject:
        """The claims that pods of a namespace mount which have not ended; a consistent read, page by page.

        Raises:
            EffectError: the API server does not list them all; an incomplete answer evicts nothing.
        """
        namespace = str(effect.params["namespace"])
        found: set[str] = set()
        token = ""
        for _ in range(_MOST_PAGES):
            try:
                page = await self._kube.list_in_form(POD, claims_mounted, namespace, limit=_PAGE, continue_token=token)
            except KubeError as error:
                cause = classify(error, verb=Verb.GET)
                what = f"the pods of namespace {namespace} cannot be listed: {cause.message}"
                raise EffectError(ClassifiedError(cause.category, cause.reason, what)) from error
            found.update(*page.items)
            token = page.continue_token
            if not token:
                return to_json(MountedClaims(claims=tuple(sorted(found))))
        what = f"the list of the pods of namespace {namespace} does not end"
        raise EffectError(ClassifiedError(Category.INFRASTRUCTURE, "PodsNotListed", what))


def claims_mounted(pod: JsonObject) -> tuple[str, ...]:
    """Names of the claims that a pod mounts; none once it has ended."""
    if (pod.get("status") or {}).get("phase") in _ENDED:
        return ()
    volumes = (pod.get("spec") or {}).get("volumes") or []
    return tuple(one["persistentVolumeClaim"]["claimName"] for one in volumes if one.get("persistentVolumeClaim"))
