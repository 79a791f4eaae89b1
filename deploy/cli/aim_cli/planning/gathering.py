"""Reads the present cache, and asks the API server what it would make of them."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

from aim_cli.answer import Answer
from aim_cli.cluster.asking import KubeReader
from aim_cli.cluster.client import cluster as connected
from aim_cli.cluster.refs import NO_SUCH_KIND, JsonObject
from aim_cli.cluster.targets import Where as Place
from aim_cli.errors import CliError, TargetError
from aim_cli.log.connecting import broker, layout
from aim_cli.parts import PARTS
from aim_cli.planning.files import Document
from aim_cli.planning.quotas import shortages
from aim_cli.planning.references import missing
from aim_cli.planning.registries import ask as ask_registries
from aim_cli.planning.report import Outcome, answer, outcome, reroutes
from aim_cli.planning.sandbox import Sandbox, Where
from aim_cli.running import waited
from aim_cli.services import services
from aim_domain.kind_names import POD, SECRET
from aim_domain.kinds import kind_of
from controller_runtime import FACTS, MOST_SHARDS, ApiError, Key, Part
from controller_runtime.log import History, facts_part_name

_UNCHANGED_BY_PLAN = ("managedFields", "resourceVersion", "generation")


def plan(
    cluster: KubeReader, documents: Iterable[Document], place: Place, nats_url: str, *, registries: bool = False
) -> Answer:
    """Do it; without an address of a broker facts are not known.

    Args:
        registries: ask registries about images of which nothing is known (FW-882).

    Raises:
        CliError: no service reads objects of a kind, or the cluster cannot be asked.
    """
    wanted, beside = placed(documents, place)
    definitions = tuple(code.definition(code.settings()) for code in services().values())
    remarks: list[str] = []
    sandbox = Sandbox(definitions, datetime.now(UTC))
    namespaces = sorted({obj["metadata"].get("namespace") or "" for _, obj in wanted} - {""})
    for part in PARTS:
        remarks += _take_in(cluster, sandbox, part, namespaces)
    for part in PARTS:
        if part.kind.plural in cluster.unasked and not part.optional:
            sandbox.unknown(part.name)
    remarks += _facts(sandbox, nats_url, place)
    verbs: dict[Where, str] = {}
    refused: list[Outcome] = []
    for part, obj in wanted:
        before = sandbox.objects.get((part.name, _key(part, obj)))
        try:
            made = _rehearsed(cluster, part, obj, remarks)
        except ApiError as error:
            if error.is_transient:
                raise
            refused.append(Outcome(Where(part, _key(part, obj)), "refused", refused=error.message))
            continue
        where = sandbox.put(part, sandbox.completed(made) if before is None else {**before, **made})
        verbs[where] = "created" if before is None else "unchanged" if _same(before, made) else "changed"
    sandbox.run(verbs)
    if registries:
        given = {
            (obj["metadata"]["namespace"], obj["metadata"]["name"]) for obj in beside if obj.get("kind") == SECRET.kind
        }
        connect = partial(connected, place.kubeconfig, place.context)
        remarks += waited(ask_registries(sandbox, connect, given))
    rerouted = reroutes(sandbox, verbs)
    lacking = missing(cluster, sandbox, beside)
    remarks += [
        f"not planned: {obj.get('kind')} {obj['metadata']['name']}: no service decides from it" for obj in beside
    ]
    pods = cluster.search(POD)
    free_known = POD.plural not in cluster.unasked
    reported = [
        *refused,
        *(outcome(sandbox, where, verb, pods if free_known else None) for where, verb in verbs.items()),
    ]
    short = shortages(
        cluster, sandbox, ((one.where.key.namespace, one.wanted) for one in reported if one.verb == "created")
    )
    optional = {part.kind.plural for part in PARTS if part.optional}
    remarks += [f"not known: {what}: {why}" for what, why in cluster.unasked.items() if what not in optional]
    return answer(reported, sandbox.steps, dict.fromkeys(remarks), rerouted, (*lacking, *short))


def _take_in(cluster: KubeReader, sandbox: Sandbox, part: Part[Any], namespaces: Iterable[str]) -> Iterator[str]:
    """The objects of a part; who may not list them everywhere has those where the planned objects are (FW-733)."""
    kind = part.kind.name
    found = cluster.search(kind, "", part.label_selector, part.field_selector)
    why = cluster.unasked.get(kind.plural, NO_SUCH_KIND)
    if why != NO_SUCH_KIND and kind.namespaced:
        del cluster.unasked[kind.plural]
        found = [
            obj
            for namespace in namespaces
            for obj in cluster.search(kind, namespace, part.label_selector, part.field_selector)
        ]
        if kind.plural not in cluster.unasked:
            sandbox.read[part.name] = frozenset(namespaces)
            yield f"not known: {kind.plural} of other namespaces: {why}"
    for obj in found:
        sandbox.put(part, obj)


def placed(documents: Iterable[Document], place: Place) -> tuple[list[tuple[Part[Any], JsonObject]], list[JsonObject]]:
    """The objects, each with its part and its namespace, and those of kinds from which no service decides.

    Raises:
        TargetError: there are only the latter.
    """
    found: list[tuple[Part[Any], JsonObject]] = []
    beside: list[JsonObject] = []
    for one in documents:
        obj, metadata = one.obj, one.obj["metadata"]
        kind = kind_of(str(obj.get("apiVersion")), str(obj.get("kind")))
        part = next((part for part in PARTS if kind is not None and part.kind is kind), None)
        if part is None:
            beside.append({**obj, "metadata": {**metadata, "namespace": metadata.get("namespace") or place.default}})
            continue
        own = {"namespace": metadata.get("namespace") or place.default} if part.kind.namespaced else {}
        found.append((part, {**obj, "metadata": {**metadata, **own}}))
    if beside and not found:
        named = f"{beside[0].get('apiVersion')} {beside[0].get('kind')}"
        raise TargetError(f"no service decides anything from {named}; name a file with an object of the platform")
    return found, beside


def _rehearsed(cluster: KubeReader, part: Part[Any], obj: JsonObject, remarks: list[str]) -> JsonObject:
    """The object as the API server would store it.

    Raises:
        ApiError: it would refuse it.
    """
    try:
        return cluster.rehearse(part.kind.name, obj)
    except ApiError as error:
        if error.code not in (403, 404):
            raise
        remarks.append(f"not known: whether the API server takes {obj['kind']} {_key(part, obj)}: {error.message}")
        return obj


def _facts(sandbox: Sandbox, nats_url: str, place: Place) -> list[str]:
    """What effects found out before: images, sizes, GPUs in use."""
    if not nats_url:
        return ["not known without the event log: what was read of registries before; set --nats-url or AIM_NATS_URL"]
    try:
        waited(_read_facts(sandbox, nats_url, place))
    except CliError as error:
        return [f"not known: what was read of registries before: {error}"]
    return []


async def _read_facts(sandbox: Sandbox, nats_url: str, place: Place) -> None:
    async with broker(nats_url, where=place) as connection:
        await take_facts(sandbox, History(connection, layout()))


async def take_facts(sandbox: Sandbox, log: History) -> None:
    """Put the facts of all shards into the cache of their service (FW-613, FW-894)."""
    parts = [facts_part_name(shard) for shard in range(MOST_SHARDS)]
    shards = await log.present((part, one.name) for part in parts for one in sandbox.definitions)
    # Objects of two shards may need the same fact, which each gathers and removes: the last one that is there counts.
    versions = (version for facts in shards.values() for version in facts.values())
    for version in sorted(versions, key=lambda version: version.sequence):
        if (body := version.state.json()) is not None:
            sandbox.put(FACTS, body, only=version.key.namespace)


def _same(before: JsonObject, made: JsonObject) -> bool:
    def without_bookkeeping(obj: JsonObject) -> JsonObject:
        metadata = {key: value for key, value in obj["metadata"].items() if key not in _UNCHANGED_BY_PLAN}
        return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": metadata}

    return without_bookkeeping(before) == without_bookkeeping(made)


def _key(part: Part[Any], obj: JsonObject) -> Key:
    return Key(obj["metadata"].get("namespace") or "" if part.kind.namespaced else "", obj["metadata"]["name"])
