"""Which claims pods mount, read live before an eviction (AR-480)."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from aim_artifacts import SERVICE_NAME
from controller_runtime import (
    ApiModel,
    ApiVerb,
    Category,
    ClassifiedError,
    Clients,
    Effect,
    EffectError,
    EffectType,
    Fact,
    Items,
    JsonObject,
    KubeClient,
    KubeError,
    Verb,
    View,
    access,
    classify,
)
from controller_runtime.kinds import POD

_FRESH: Final = timedelta(seconds=10)
"""How long a reading stands for what is."""
_AGAIN: Final = timedelta(seconds=60)
"""How often it is read again whether a foreign pod still mounts a chosen claim."""
_FAILED_AGAIN: Final = timedelta(seconds=10)


class MountsParams(ApiModel):
    """The pods of which namespace are looked at."""

    namespace: str


class MountedClaims(ApiModel):
    """What a reading found: names of the claims that pods mount which have not ended."""

    claims: Items[str] = ()


_PAGE: Final = 500
_MOST_PAGES: Final = 200
_ENDED: Final = frozenset({"Succeeded", "Failed"})


class MountReader:
    """Runner of `MOUNTED_CLAIMS`."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def __call__(self, params: MountsParams) -> MountedClaims:
        """The claims that pods of a namespace mount which have not ended; a consistent read, page by page.

        Raises:
            EffectError: the API server does not list them all; an incomplete answer evicts nothing.
        """
        namespace = params.namespace
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
                return MountedClaims(claims=tuple(sorted(found)))
        what = f"the list of the pods of namespace {namespace} does not end"
        raise EffectError(ClassifiedError(Category.INFRASTRUCTURE, "PodsNotListed", what))


def claims_mounted(pod: JsonObject) -> tuple[str, ...]:
    """Names of the claims that a pod mounts; none once it has ended."""
    if (pod.get("status") or {}).get("phase") in _ENDED:
        return ()
    volumes = (pod.get("spec") or {}).get("volumes") or []
    return tuple(one["persistentVolumeClaim"]["claimName"] for one in volumes if one.get("persistentVolumeClaim"))


def _reader(clients: Clients) -> MountReader:
    return MountReader(clients.kube)


MOUNTED_CLAIMS: Final = EffectType(
    "mounted-claims", MountsParams, MountedClaims, _reader, 4, (access(POD, ApiVerb.LIST),)
)
"""The claims that pods mount. Its key is the namespace: one reading serves all who ask."""


def last_mounted(view: View, namespace: str) -> frozenset[str]:
    """The claims that the last reading found mounted, however long ago it was."""
    found = MOUNTED_CLAIMS.result_of(_fact(view, namespace))
    return frozenset() if found is None else frozenset(found.claims)


def readings_due(view: View, namespaces: Iterable[str], now: datetime) -> tuple[Effect, ...]:
    """Readings that an eviction in these namespaces needs now; nothing when all of them are fresh."""
    effects = []
    for namespace in sorted(set(namespaces)):
        fact = _fact(view, namespace)
        if fact is None or fact.outcome is None or not now - _FRESH < fact.observed_at <= now + _FRESH:
            failed = fact is not None and fact.outcome is None
            effects.append(_reading(namespace, fact.observed_at + _FAILED_AGAIN if fact and failed else None))
    return tuple(effects)


def later_readings(view: View, namespaces: Iterable[str]) -> tuple[Effect, ...]:
    """Readings that tell when a pod of others lets go of an artifact: no watch does."""
    facts = ((namespace, _fact(view, namespace)) for namespace in sorted(set(namespaces)))
    return tuple(_reading(namespace, None if fact is None else fact.observed_at + _AGAIN) for namespace, fact in facts)


def unread(view: View, namespaces: Iterable[str]) -> str:
    """Why pods cannot be listed, for people; empty while nothing is wrong."""
    facts = (_fact(view, namespace) for namespace in sorted(set(namespaces)))
    return next((fact.error.message for fact in facts if fact is not None and fact.error is not None), "")


def _reading(namespace: str, not_before: datetime | None) -> Effect:
    return MOUNTED_CLAIMS.ask(namespace, MountsParams(namespace=namespace), not_before)


def _fact(view: View, namespace: str) -> Fact | None:
    return MOUNTED_CLAIMS.look_up(view, SERVICE_NAME, namespace).value
