"""Which adapters the engine of each pod has loaded, and the effect that loads and unloads them (LA-031, LA-032)."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import aiohttp

from aim_domain import AIMService
from aim_serving import SERVICE_NAME
from aim_serving.answers import read_answer
from aim_serving.indexes import PODS_BY_WORKLOAD
from aim_serving.inference_service import CONTAINER, HTTP_PORT, is_serving
from aim_serving.volumes import ADAPTER_PATH, ADAPTER_VOLUME
from controller_runtime import (
    ApiModel,
    Category,
    ClassifiedError,
    Clients,
    Effect,
    EffectError,
    EffectType,
    Fact,
    JsonObject,
    View,
    canonical,
    loads,
    scoped,
    to_json,
)
from controller_runtime.core import Pod
from controller_runtime.texts import shortened

_SECONDS: Final = 30.0
_SECONDS_IN_ALL: Final = 120.0
"""Of one turn: what is loaded by then stays loaded, and the next turn goes on."""
_PLAIN: Final = {"accept-encoding": "identity"}
_LONGEST_REASON: Final = 300
_DIGITS: Final = 16
_OK: Final = 200
_NOT_FOUND: Final = 404
_LOADED: Final = "already been loaded"
_FIRST_RETRY: Final = timedelta(seconds=10)
_LAST_RETRY: Final = timedelta(minutes=5)
_REFUSED_RETRY: Final = timedelta(minutes=2)


class WantedAdapter(ApiModel):
    """An adapter that an engine is to have."""

    name: str
    path: str


class LoadParams(ApiModel):
    """What the engine of one pod is to have.

    Attributes:
        digest: of what is wanted, so that the result says what it is the result of.
        kept: names that are not unloaded, although their files are not there at present.
    """

    url: str
    digest: str
    wanted: tuple[WantedAdapter, ...] = ()
    kept: tuple[str, ...] = ()


class Refusal(WantedAdapter):
    """An adapter that an engine does not take."""

    why: str


class LoadResult(ApiModel):
    """What the engine has, and what it does not take, of what it was to have."""

    digest: str = ""
    loaded: tuple[WantedAdapter, ...] = ()
    refused: tuple[Refusal, ...] = ()


class AdapterLoader:
    """Runner of `ADAPTER_LOAD`. Which engine runs is up to the tenant: it is followed to no other address."""

    def __init__(self, proxy: str = "") -> None:
        """``proxy``: of HTTP, through which pods are reached; empty where they are reached directly (LA-034)."""
        self._proxy = proxy or None

    async def __call__(self, params: LoadParams) -> LoadResult:
        """Bring one engine to what is wanted.

        Raises:
            EffectError: it does not answer.
        """
        try:
            timeout = aiohttp.ClientTimeout(total=_SECONDS)
            # What is compressed may be any amount of text, so nothing is unpacked before its length is known.
            session = aiohttp.ClientSession(timeout=timeout, headers=_PLAIN, auto_decompress=False)
            async with session, asyncio.timeout(_SECONDS_IN_ALL):
                return await self._bring(session, params)
        except (aiohttp.ClientError, TimeoutError, ValueError, LookupError, TypeError, AttributeError) as error:
            why = shortened(str(error) or type(error).__name__, _LONGEST_REASON)
            what = f"the engine at {params.url} has not answered: {why}"
            raise EffectError(ClassifiedError(Category.INFRASTRUCTURE, "EngineNotReached", what)) from error

    async def _bring(self, session: "aiohttp.ClientSession", params: LoadParams) -> LoadResult:
        present = await self._present(session, params.url)
        wanted = {one.name: one.path for one in params.wanted}
        for name, path in present.items():
            if path.startswith(f"{ADAPTER_PATH}/") and (name not in params.kept or wanted.get(name, path) != path):
                await self._post(session, f"{params.url}/v1/unload_lora_adapter", {"lora_name": name})
        loaded, refused = [], []
        for one in params.wanted:
            is_there = present.get(one.name) == one.path
            why = "" if is_there else await self._load(session, params.url, one)
            if why:
                refused.append(Refusal(name=one.name, path=one.path, why=why))
            else:
                loaded.append(one)
        return LoadResult(digest=params.digest, loaded=tuple(loaded), refused=tuple(refused))

    async def _present(self, session: "aiohttp.ClientSession", url: str) -> Mapping[str, str]:
        """Adapters that the engine has, by name, each with its path."""
        async with session.get(f"{url}/v1/models", proxy=self._proxy, allow_redirects=False) as reply:
            body = loads(await read_answer(reply.content.iter_any()))
            if reply.status != _OK:
                raise ValueError(f"GET /v1/models: {reply.status} {_reason(body)}")
        return {one["id"]: str(one.get("root") or "") for one in body["data"] if one.get("parent")}

    async def _load(self, session: "aiohttp.ClientSession", url: str, adapter: WantedAdapter) -> str:
        """Why the engine does not take the adapter; empty if it does."""
        body = {"lora_name": adapter.name, "lora_path": adapter.path}
        status, why = await self._post(session, f"{url}/v1/load_lora_adapter", body)
        if status == _OK or _LOADED in why:
            return ""
        if status == _NOT_FOUND and "No adapter found" not in why:
            return "the engine has no /v1/load_lora_adapter; serve the model with an image whose vLLM loads adapters"
        return f"the engine refuses it ({status}): {why}"

    async def _post(self, session: "aiohttp.ClientSession", url: str, body: JsonObject) -> tuple[int, str]:
        async with session.post(url, json=body, proxy=self._proxy, allow_redirects=False) as reply:
            content = await read_answer(reply.content.iter_any())
            return reply.status, "" if reply.status == _OK else _reason_of(content)


def _reason_of(content: bytes) -> str:
    try:
        return _reason(loads(content))
    except ValueError:
        return shortened(content.decode(errors="replace").strip(), _LONGEST_REASON)


def _reason(body: JsonObject) -> str:
    """The message of an error, in the forms of vLLM's releases and of FastAPI."""
    inner = body.get("error")
    found = inner.get("message") if isinstance(inner, dict) else body.get("message") or body.get("detail")
    return shortened(str(found or "no reason"), _LONGEST_REASON)


def _loader(_: Clients) -> AdapterLoader:
    return AdapterLoader()


ADAPTER_LOAD: Final = EffectType("adapter-load", LoadParams, LoadResult, _loader, 16)
"""Loading into, and unloading from, the engine of one pod."""


@dataclass(frozen=True, slots=True)
class LoadedIn:
    """What the engines of the ready pods have.

    Attributes:
        ready: pods that have the disk and answer.
        results: of each; what says something of files that an adapter does not have any longer is left out.
        trouble: what the first engine that does not answer says.
    """

    ready: int = 0
    results: tuple[LoadResult, ...] = ()
    trouble: str = ""
    effects: tuple[Effect, ...] = ()

    def count(self, name: str) -> int:
        """In how many of them an adapter is loaded."""
        return sum(one.name == name for result in self.results for one in result.loaded)

    def refusal(self, name: str) -> str:
        """Why an engine does not take an adapter; empty if none refuses it."""
        return next((one.why for result in self.results for one in result.refused if one.name == name), "")


@dataclass(frozen=True, slots=True)
class EnginePods:
    """Which pods are to load adapters.

    Attributes:
        workload: the InferenceService.
        claim: of the disk; pods with another one, or none, are about to be replaced.
    """

    workload: str
    claim: str


def loaded_in_pods(
    view: View, service: AIMService, of: EnginePods, wanted: Sequence[WantedAdapter], kept: Sequence[str]
) -> LoadedIn:
    """What each engine has, and the effects that bring it to what it is to have."""
    pods = view.select(PODS_BY_WORKLOAD, scoped(service.namespace, of.workload)).items
    ready = [pod for pod in pods if _takes_adapters(pod, of.claim)]
    digest = _digest(wanted, kept)
    results, effects, troubles = [], [], []
    for pod in ready:
        key = f"{service.uid}/{pod.uid}/{_restarts(pod)}"
        fact = ADAPTER_LOAD.look_up(view, SERVICE_NAME, key).value
        result = ADAPTER_LOAD.result_of(fact)
        if result is not None:
            results.append(_of_today(result, wanted))
        if fact is not None and fact.failure is not None:
            troubles.append(f"pod {pod.name}: {fact.failure.message}")
        done = result is not None and result.digest == digest and not result.refused
        if not done:
            params = LoadParams(url=_url(pod), digest=digest, wanted=tuple(wanted), kept=tuple(kept))
            effects.append(ADAPTER_LOAD.ask(key, params, _due(fact, result, digest)))
    return LoadedIn(len(ready), tuple(results), next(iter(troubles), ""), tuple(effects))


def _of_today(result: LoadResult, wanted: Sequence[WantedAdapter]) -> LoadResult:
    """What a result says of the present files: an adapter from another source has another path."""
    today = {(one.name, one.path) for one in wanted}
    return LoadResult(
        loaded=tuple(one for one in result.loaded if (one.name, one.path) in today),
        refused=tuple(one for one in result.refused if (one.name, one.path) in today),
    )


def _takes_adapters(pod: Pod, claim: str) -> bool:
    """Whether it answers and has the disk: engines of pods of before take no adapters, or do not find these."""
    mounts = [one.persistent_volume_claim for one in pod.spec.volumes if one.name == ADAPTER_VOLUME]
    has_disk = any(one is not None and one.claim_name == claim for one in mounts)
    return has_disk and not pod.deleting and is_serving(pod) and bool(pod.status.pod_ip)


def _due(fact: Fact | None, result: LoadResult | None, digest: str) -> datetime | None:
    """When to ask the engine (again); ``None`` means at once."""
    if fact is None:
        return None
    if fact.failure is not None:
        # An exponent of fifty failures would be more than a timedelta holds.
        doubled: int = 2 ** min(fact.attempts, 9)
        return fact.observed_at + min(_LAST_RETRY, _FIRST_RETRY * doubled / 2)
    return fact.observed_at + _REFUSED_RETRY if result is not None and result.digest == digest else None


def _restarts(pod: Pod) -> int:
    return sum(one.restart_count for one in pod.status.container_statuses if one.name == CONTAINER)


def _url(pod: Pod) -> str:
    address = pod.status.pod_ip
    return f"http://[{address}]:{HTTP_PORT}" if ":" in address else f"http://{address}:{HTTP_PORT}"


def _digest(wanted: Sequence[WantedAdapter], kept: Sequence[str]) -> str:
    text = canonical({"wanted": [to_json(one) for one in wanted], "kept": list(kept)})
    return hashlib.sha256(text).hexdigest()[:_DIGITS]
