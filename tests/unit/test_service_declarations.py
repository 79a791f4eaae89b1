"""The declarations of the five services fit together: one publisher per part, nothing consumed unpublished."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.declarations import definitions
from support.whole_platform import variants

from aim_cli.parts import PARTS
from aim_domain import services as names
from aim_packaging import tree
from controller_runtime import FACTS, Depth, Index, JsonObject, Part, Resource, ServiceDefinition
from controller_runtime.log.wire.version import KEPT_DECODED
from controller_runtime.manager.context import paused_indexes

ROOT = Path(__file__).parents[2]
SERVICES = definitions()
NAMES = tuple(service.name for service in SERVICES)


def test_what_cannot_import_the_list_of_services_has_the_same() -> None:
    assert NAMES == names.SERVICES
    assert {one.parent.name for one in ROOT.glob("services/*/pyproject.toml")} == set(NAMES)
    assert set(tree.packages_of(ROOT)) == {*NAMES, "downloader", "cli"}


def test_every_part_is_published_by_exactly_one_service() -> None:
    publishers = Counter(part.name for service in SERVICES for part in service.publishes)
    assert publishers == Counter(part.name for part in PARTS if part is not FACTS)


def test_exactly_one_service_governs_the_streams() -> None:
    assert [one.name for one in SERVICES if one.governs_streams] == ["serving"]


@pytest.mark.parametrize("service", SERVICES, ids=NAMES)
def test_every_consumed_part_is_published_by_somebody(service: ServiceDefinition) -> None:
    published = {part.name for one in SERVICES for part in one.publishes}
    # Facts are published by each service for itself.
    assert {part.name for part in service.consumes} - published == {FACTS.name}


@pytest.mark.parametrize("service", SERVICES, ids=NAMES)
def test_what_is_reconciled_or_wakes_is_consumed(service: ServiceDefinition) -> None:
    consumed = {part.name for part in service.consumes}
    needed = {reconciler.part.name for reconciler in service.reconcilers}
    needed |= {wake.part.name for reconciler in service.reconcilers for wake in reconciler.mappings}
    needed |= {index.part.name for index in service.indexes}
    assert needed <= consumed


_BEYOND = {Depth.METADATA: {"spec", "status"}, Depth.SPEC: {"status"}}


class Blind:
    """An object into which nobody may look further."""

    def __init__(self, obj: Resource, depth: Depth) -> None:
        self._obj = obj
        self._depth = depth

    def __getattr__(self, name: str) -> Any:
        assert name not in _BEYOND[self._depth], "an index looks further into objects than it says"
        return getattr(self._obj, name)


@pytest.mark.parametrize("service", SERVICES, ids=NAMES)
def test_indexes_look_no_further_into_objects_than_they_say(service: ServiceDefinition) -> None:
    indexes = [*(one for one in service.indexes if isinstance(one, Index)), *paused_indexes(service)]
    blind = [index for index in indexes if index.depth is not Depth.WHOLE]
    assert blind
    known = variants().values()
    for index in blind:
        looked_at = [index.part.model(), *(index.part.kind.decode(one) for one in known if _is_of(index.part, one))]
        for obj in looked_at:
            tuple(index.values(Blind(obj, index.depth)))


def _is_of(part: Part[Any], obj: JsonObject) -> bool:
    return (obj["apiVersion"], obj["kind"]) == (part.kind.api_version, part.kind.kind)


@pytest.mark.spec("FW-201", "FW-200")
def test_controllers_and_field_managers_have_their_names() -> None:
    controllers = {one.controller: service.name for service in SERVICES for one in service.reconcilers}
    # Dashboards and alerts name them.
    known = {
        "cluster-model-source": "model-sync",
        "model": "discovery",
        "cluster-model": "discovery",
        "service-template": "discovery",
        "cluster-service-template": "discovery",
        "gpu-node": "discovery",
        "template-cache": "artifacts",
        "profile-cache": "artifacts",
        "profile": "discovery",
        "cluster-profile": "discovery",
        "profile-set": "discovery",
        "cluster-profile-set": "discovery",
        "artifact": "artifacts",
        "service": "serving",
        "runtime-config": "serving",
        "cluster-runtime-config": "serving",
        "namespace-config": "serving",
        "kaiwo-config": "serving",
        "routing": "routing",
    }
    assert known.items() <= controllers.items()
    assert [service.field_manager for service in SERVICES] == [f"aim-{name}" for name in NAMES]


@pytest.mark.parametrize("service", SERVICES, ids=NAMES)
def test_an_index_has_one_name(service: ServiceDefinition) -> None:
    names = Counter((index.part.name, index.name) for index in service.indexes)
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.spec("FW-459")
def test_who_reads_a_whole_catalogue_or_all_volumes_in_each_pass_keeps_them_decoded_and_nobody_else_does() -> None:
    kept = {service.name: service.kept_decoded >> 20 for service in SERVICES if service.kept_decoded != KEPT_DECODED}
    assert kept == {"model-sync": 24, "artifacts": 2}
