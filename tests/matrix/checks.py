"""The comparisons themselves: what is wrong on purpose, while nobody can repair it, has to be told."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

from matrix.case import Case, Outcome, Scenario
from matrix.plans import judge
from matrix.r10_soak import MOST_DESCRIPTORS, MOST_GROWTH, grown, usage
from matrix.site import CATALOGUE_IMAGE, NAMESPACE, OWN, Site, service

from controller_runtime import JsonObject
from embedded_apiserver.faults import FaultRule, Refusal

_PATIENCE: Final = 20.0
_LARGE: Final = 1_000_000
_HELD: Final = {"finalizers": ["example.com/held"]}


async def _taken_away(site: Site, _: random.Random) -> Outcome:
    """A child is gone: the cluster differs, and a plan wants to write."""
    await site.tell()
    differences = await site.converged()
    site.proxy.add(FaultRule(verbs=frozenset({"write"}), user_agent="serving", fault=Refusal(code=500)))
    [child] = [obj for obj in site.story() if obj["kind"] == "InferenceService" and _owner(obj) == "own"]
    name = child["metadata"]["name"]
    await site.api.delete(f"/apis/{child['apiVersion']}/namespaces/{NAMESPACE}/inferenceservices/{name}")
    differences += await _until_answered(site, site.divergence, "missing: InferenceService")
    judged = await judge(site)
    differences += _unreported(judged.wanted, "service would write for matrix/own", f"InferenceService {name}")
    site.heal()
    differences += await site.converged()
    return Outcome(Counter({"child taken away": 1}), judged.plans, differences)


async def _added(site: Site, _: random.Random) -> Outcome:
    """One object too many, and one whose owner does not exist."""
    await site.tell()
    differences = await site.converged()
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    absent = {"apiVersion": "v1", "kind": "Pod", "name": "absent", "uid": "00000000-0000-4000-8000-000000000000"}
    await site.api.created(path, _config_map("extra"))
    await site.api.created(path, _config_map("orphan", ownerReferences=[absent], **_HELD))
    for text in ("extra: ConfigMap matrix/extra", "orphan: ConfigMap matrix/orphan"):
        differences += await _until_answered(site, site.divergence, text)
    await site.api.merge(f"{path}/orphan", {"metadata": {"finalizers": None}})
    return Outcome(Counter({"extra object": 1, "orphan": 1}), len(site.story()), differences)


async def _files(site: Site, _: random.Random) -> Outcome:
    """A service holds more open files than before: connections that nobody closes."""
    before = usage(site)
    async with _connections(site.stack["serving"].url, MOST_DESCRIPTORS + 4):
        await asyncio.sleep(1.0)
        differences = _unreported(grown(before, usage(site)), "serving", "more open files")
    return Outcome(Counter({"open connection": MOST_DESCRIPTORS + 4}), len(before), differences)


async def _memory(site: Site, _: random.Random) -> Outcome:
    """A service holds more than before: large objects that stay."""
    before, count = usage(site), round(2 * MOST_GROWTH)
    await site.api.created(
        "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    )
    for number in range(count):
        large = service(
            f"large-{number}",
            NAMESPACE,
            model={"image": CATALOGUE_IMAGE},
            env=[{"name": "LARGE", "value": _text(number)}],
        )
        await site.api.created(f"{OWN}/namespaces/{NAMESPACE}/aimservices", large)
    differences = await _until_answered(site, lambda: grown(before, usage(site)), "serving grew by")
    return Outcome(Counter({"large object": count}), len(before), differences)


def _text(number: int) -> str:
    """So long, and nothing that a compression makes small."""
    return random.Random(number).randbytes(_LARGE // 2).hex()


def _config_map(name: str, **metadata: object) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE, **metadata}}


def _owner(obj: JsonObject) -> str:
    return str(obj["metadata"]["ownerReferences"][0]["name"])


@asynccontextmanager
async def _connections(url: str, count: int) -> AsyncIterator[None]:
    where = urlsplit(url)
    writers = [(await asyncio.open_connection(where.hostname, where.port))[1] for _ in range(count)]
    try:
        yield
    finally:
        for writer in writers:
            writer.transport.abort()


async def _until_answered(site: Site, reported: Callable[[], Sequence[str]], *words: str) -> list[str]:
    """Wait until one of the texts has the words; else that none has."""
    await site.mirror.until(lambda: not _unreported(reported(), *words), _PATIENCE * site.patience)
    return _unreported(reported(), *words)


def _unreported(reported: Iterable[str], *words: str) -> list[str]:
    texts = list(reported)
    found = any(all(word in text for word in words) for text in texts)
    return [] if found else [f"nobody tells {' … '.join(words)}: {texts}"]


def _cases() -> Sequence[Case]:
    planted = {"taken-away": _taken_away, "added": _added, "files": _files, "memory": _memory}
    return [Case("checks", name, one) for name, one in planted.items()]


SCENARIO: Final = Scenario("checks", "the comparisons themselves", "that they tell", _cases)
