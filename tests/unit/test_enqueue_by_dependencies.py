"""Over all reconcilers: a decision's dependencies enqueue it, and a change that does not would not change it."""

import os
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import count, islice
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import pytest
from pydantic import ValidationError
from support.builders import fact, make
from support.declarations import definitions
from support.planned_schemas import refusals
from support.settled_caches import FAILING, PROFILED, SCALED, after_some_passes, settled
from support.whole_platform import TEAM
from support.woken import Awake

from aim_domain import kinds, labels, parts
from controller_runtime import (
    FACTS,
    Category,
    ClassifiedError,
    JsonObject,
    Key,
    Part,
    Predicate,
    ServiceDefinition,
    dumps,
    loads,
)
from controller_runtime.reconcile.record import plan_to_json

SERVICES: Final = definitions()
NAMES: Final = [service.name for service in SERVICES]
Share: TypeAlias = tuple[int, int]
SHARES: Final[dict[str, Share]] = {
    "AIMService": (0, 5),
    "AIMService by image": (1, 5),
    PROFILED: (2, 5),
    "AIMService of its own": (3, 5),
    SCALED: (4, 7),
    FAILING: (0, 1) if os.environ.get("AIM_EXPLORE") == "random" else (0, 3),
}
"""Which of the mutants a variant tries: the objects are mostly the same in all but the last,
of which every one is tried when exploring (`make chaos`)."""


EFFECTS: Final = {"discovery": {"image-inspection", "pull-secrets"}, "model-sync": {"sync"}}
"""What decisions ask for in these caches."""
_STRANGER: Final = {"apiVersion": "v1", "kind": "Gadget", "name": "stranger", "uid": "stranger", "controller": False}
_ADDITIONS: Final[dict[str, JsonObject]] = {
    "being deleted": {"deletionTimestamp": "2026-11-21T12:00:00Z", "generation": 99},
    "another label": {"labels": {"team": "blue"}},
    "another owner": {"ownerReferences": [_STRANGER]},
    **{
        f"annotation {value}": {"annotations": {value: "7"}}
        for name, value in vars(labels).items()
        if name.startswith("ANNOTATION_")
    },
}
"""What the objects of these caches do not have yet."""
_IDENTITY: Final = frozenset({"name", "namespace", "uid", "resourceVersion"})
_VERSIONS: Final = count(1 << 30)


def cases(*others: str) -> pytest.MarkDecorator:
    """Each service with each variant; where its cache has no AIMService, and so is the same, with FAILING and these."""
    every = [
        pytest.param(service, variant, id=f"{variant}-{service.name}")
        for service in SERVICES
        for variant in SHARES
        if parts.SERVICES in service.consumes or variant in {*others, FAILING}
    ]
    return pytest.mark.parametrize(("service", "variant"), every)


def _deciders(awake: Awake) -> list[tuple[str, Part[Any], Key]]:
    return [
        (reconciler.controller, reconciler.part, entry.key)
        for reconciler in awake.service.reconcilers
        for entry in awake.built.cache.all(reconciler.part)
    ]


def _next(obj: JsonObject) -> JsonObject:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(next(_VERSIONS))}}


def mutants(obj: JsonObject, share: Share = (0, 1)) -> Iterator[tuple[str, JsonObject]]:
    """What the API takes of the object with one value changed or left out; not its identity.

    Args:
        share: which of them, and of how many one is taken.
    """
    for where, changed in islice(_mutants(obj), share[0], None, share[1]):
        # The server puts back what has a default.
        if changed is not None and (where in _ADDITIONS or not refusals(changed)) and changed != obj:
            yield where, _next(changed)


def _mutants(obj: JsonObject) -> Iterator[tuple[str, JsonObject | None]]:
    metadata = obj["metadata"]
    for path in _paths(obj):
        if path[0] in {"apiVersion", "kind"} or (path[0] == "metadata" and path[1:2] and path[1] in _IDENTITY):
            continue
        for changed in (_changed(obj, path), _without(obj, path)):
            if path[0] == "spec" and changed is not None:
                changed["metadata"]["generation"] = metadata.get("generation", 1) + 1
            yield ".".join(map(str, path)), changed
    for name, more in _ADDITIONS.items():
        added = {field: _added(metadata.get(field), value) for field, value in more.items()}
        yield name, {**obj, "metadata": {**metadata, **added}}


def _added(present: Any, more: Any) -> Any:
    if isinstance(more, dict):
        return {**(present or {}), **more}
    return [*(present or []), *more] if isinstance(more, list) else more


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield from _paths(one, (*path, name))


def _copy(obj: JsonObject) -> JsonObject:
    return loads(dumps(obj))


def _changed(obj: JsonObject, path: tuple[str | int, ...]) -> JsonObject | None:
    changed = _copy(obj)
    holder: Any = changed
    for step in path[:-1]:
        holder = holder[step]
    value = holder[path[-1]]
    if isinstance(value, bool):
        holder[path[-1]] = not value
    elif isinstance(value, int):
        holder[path[-1]] = value + 1
    elif isinstance(value, str):
        # A quantity stays one.
        holder[path[-1]] = "False" if value == "True" else f"1{value}" if value[:1].isdigit() else f"{value}x"
    else:
        return None
    return changed


def _without(obj: JsonObject, path: tuple[str | int, ...]) -> JsonObject | None:
    if path == ("metadata",) or any(isinstance(step, int) for step in path[:-1]):
        # Nobody leaves out what makes an item of a list, as the type of a condition.
        return None
    changed = _copy(obj)
    holder: Any = changed
    for step in path[:-1]:
        holder = holder[step]
    del holder[path[-1]]
    return changed


def decisions(
    awake: Awake, except_of: Mapping[str, AbstractSet[Key]] = MappingProxyType({})
) -> dict[tuple[str, Key], JsonObject | None]:
    """What every object decides now, but for some of each controller."""
    made = (
        (controller, key, awake.decide(controller, key))
        for controller, _, key in _deciders(awake)
        if key not in except_of.get(controller, ())
    )
    return {(controller, key): None if plan is None else plan_to_json(plan) for controller, key, plan in made}


def _known(awake: Awake) -> list[tuple[Part[Any], Key]]:
    parts: tuple[Part[Any], ...] = awake.service.consumes
    return [(part, entry.key) for part in parts for entry in awake.built.cache.all(part)]


def left_asleep(
    awake: Awake, before: dict[tuple[str, Key], JsonObject | None], woken: dict[str, set[Key]]
) -> set[tuple[str, Key]]:
    """Who was there before, decides otherwise now, and was not enqueued."""
    after = decisions(awake, woken)
    return {who for who, plan in after.items() if plan is not None and plan != before.get(who, plan)}


@pytest.mark.spec("FW-500", "FW-501")
@cases("AIMService", "AIMService by image", "AIMService of its own")
def test_a_change_that_wakes_nobody_changes_no_decision(service: ServiceDefinition, variant: str) -> None:
    awake = settled(service, variant)
    before, tried = decisions(awake), 0
    for part, key in _known(awake):
        entry = awake.built.cache.get(part, key)
        assert entry is not None
        original = entry.raw
        for where, mutant in mutants(original, SHARES[variant]):
            changed = left_asleep(awake, before, awake.put(part, mutant))
            # What others write into the status of a source is corrected with its next pass (MS-245).
            ignored = {("cluster-model-source", key)} if where.startswith("status") else set()
            assert not changed - ignored, f"{part} {key}: {where} changes what nobody is woken for"
            awake.put(part, _next(original))
            tried += 1
        awake.pass_of_all()
    assert tried >= 8
    assert decisions(awake) == before, "everything is again as it was"


def _namesake(obj: JsonObject) -> JsonObject:
    """Another object that differs in nothing but its identity."""
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "name": f"{metadata['name']}-too", "uid": f"{metadata['uid']}-too"}}


@pytest.mark.spec("FW-500", "FW-501")
@cases("AIMService")
def test_what_comes_and_wakes_nobody_changes_no_decision(service: ServiceDefinition, variant: str) -> None:
    """The first of its name, and one more of its kind."""
    awake = settled(service, variant)
    for part, key in _known(awake):
        entry = awake.built.cache.get(part, key)
        assert entry is not None
        awake.delete(part, key)
        without = decisions(awake)
        back = _next(entry.raw)
        assert not left_asleep(awake, without, awake.put(part, back)), f"{part} {key} comes"
        before, more = decisions(awake), _next(_namesake(entry.raw))
        assert not left_asleep(awake, before, awake.put(part, more)), f"{part} {key} is joined by another"
        joined = decisions(awake)
        woken = awake.delete(part, Key.of(more))
        assert not left_asleep(awake, joined, woken), f"{part} {key} is alone again"
        awake.pass_of_all()


@pytest.mark.spec("FW-500")
@pytest.mark.parametrize("service", [one for one in SERVICES if one.name in EFFECTS], ids=sorted(EFFECTS))
def test_a_result_that_wakes_nobody_changes_no_decision(service: ServiceDefinition) -> None:
    """An effect fails, fails for another reason, and its result goes."""
    awake, tried = settled(service, "AIMService"), set[str]()
    for controller, part, key in _deciders(awake):
        entry, plan = awake.built.cache.get(part, key), awake.decide(controller, key)
        assert entry is not None
        for effect in plan.effects if plan is not None else ():
            for category in (Category.INFRASTRUCTURE, Category.INVALID_SPEC):
                failure = ClassifiedError(category, "Broken", f"it broke: {category}")
                reported = fact(service.name, effect.kind, effect.key, entry.raw, part, failure=failure, attempts=1)
                before = decisions(awake)
                woken = awake.put(FACTS, reported)
                assert not left_asleep(awake, before, woken), f"{effect.kind} of {key} fails: {category}"
                tried.add(effect.kind)
            before = decisions(awake)
            woken = awake.delete(FACTS, Key.of(reported))
            assert not left_asleep(awake, before, woken), f"{effect.kind} of {key} is forgotten"
    assert tried == EFFECTS[service.name]


@pytest.mark.spec("FW-500")
@pytest.mark.parametrize("service", SERVICES, ids=NAMES)
def test_what_was_read_and_goes_wakes_who_read_it(service: ServiceDefinition) -> None:
    for part, key in _known(settled(service, "AIMService")):
        awake = settled(service, "AIMService")
        readers = {
            (controller, own)
            for controller, own_part, own in _deciders(awake)
            if (part, key) != (own_part, own) and awake.reads(controller, own, part, key)
        }
        woken = {(controller, one) for controller, keys in awake.delete(part, key).items() for one in keys}
        assert readers <= woken, f"{part} {key}"


_BLIND: Final = {("artifacts", "pods-predictor")}
"""Of these it counts only that they are there, and what indexes find them by."""


def examples(service: ServiceDefinition) -> list[tuple[Part[Any], JsonObject]]:
    """Objects of the parts of a service: of all variants, and those that no cache here holds."""
    found = [one for variant in SHARES for one in after_some_passes(service.name, variant)]
    more = [
        make(kinds.POD, "pod", namespace=TEAM, status={"phase": "Running"}),
        make(kinds.PERSISTENT_VOLUME_CLAIM, "claim", namespace=TEAM),
        make(kinds.ROLE_BINDING, "binding", namespace=TEAM),
    ]
    return found + [
        (part, obj)
        for part in service.consumes
        for obj in more
        if (part.kind.api_version, part.kind.kind) == (obj["apiVersion"], obj["kind"])
    ]


def _shows(shown: Predicate[Any], obj: JsonObject, mutant: JsonObject) -> bool:
    try:
        changed = shown.part.kind.decode(mutant)
    except ValidationError:
        # An API server takes no such time either.
        return False
    return shown.of(shown.part.kind.decode(obj)) != shown.of(changed)


@pytest.mark.spec("FW-501")
@pytest.mark.parametrize("service", SERVICES, ids=NAMES)
def test_every_part_shows_something_that_changes(service: ServiceDefinition) -> None:
    """Whatever shows nothing at all would let its readers sleep."""
    objects, blind = examples(service), set[str]()
    for shown in service.predicates:
        mine = [obj for part, obj in objects if part is shown.part]
        assert mine, f"no example of {shown.part.name}"
        if not any(_shows(shown, obj, mutant) for obj in mine for _, mutant in mutants(obj)):
            blind.add(shown.part.name)
    assert blind == {part for name, part in _BLIND if name == service.name}
