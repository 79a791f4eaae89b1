"""Volumes of weights on the page of capacity."""

import pytest
from support.asked import Objects
from support.builders import make, owner

from aim_cli.cluster.refs import JsonObject
from aim_cli.why.holders import holders
from aim_console.capacity_page import Volume, capacity, volumes
from aim_console.templating import render
from aim_domain import labels
from aim_domain.kind_names import AIM_ARTIFACT, NAMESPACE, NODE, PERSISTENT_VOLUME_CLAIM, POD, KindName
from controller_runtime.testing import NOW

GIB = 1 << 30
FRAME: JsonObject = {"place": "capacity", "version": 1, "complete": True, "lost_at": None, "unasked": {}, "trouble": ""}


def artifact(name: str, **status: object) -> JsonObject:
    return make(AIM_ARTIFACT, name, namespace="team", spec={"sourceUri": "hf://org/m"}, status=status)


def claim(of: JsonObject, size: str) -> tuple[KindName, JsonObject]:
    name = of["metadata"]["name"]
    spec = {"resources": {"requests": {"storage": size}}}
    return PERSISTENT_VOLUME_CLAIM, make(
        PERSISTENT_VOLUME_CLAIM,
        f"{name}-cache",
        namespace="team",
        labels={labels.CACHE_NAME: name},
        owners=[owner(of)],
        spec=spec,
    )


SMALL = artifact("small", status="Ready", discoveredSizeBytes=8 * GIB, lastUsed="2026-11-20T12:00:00Z")
LARGE = artifact("large", status="Progressing", progress={"downloadedBytes": 75 * GIB, "totalBytes": 200 * GIB})
GONE = artifact("gone")
USER = make(
    POD, "chat-0", namespace="team", status={"phase": "Running"},
    spec={"volumes": [{"persistentVolumeClaim": {"claimName": "small-cache"}}]},
)  # fmt: skip
KNOWN = Objects(
    (AIM_ARTIFACT, SMALL), (AIM_ARTIFACT, LARGE), claim(SMALL, "10Gi"), claim(LARGE, "300Gi"), claim(GONE, "20Gi"),
    (POD, USER),
)  # fmt: skip


def listed(order: str) -> list[Volume]:
    artifacts = KNOWN.search(AIM_ARTIFACT)
    return volumes(holders(KNOWN.search(PERSISTENT_VOLUME_CLAIM), artifacts, KNOWN.search(POD)), artifacts, "", order)


@pytest.mark.spec("FW-672")
def test_each_volume_tells_its_artifact_how_full_it_is_and_who_uses_it() -> None:
    found = {one.artifact.name: one for one in listed("size")}
    assert list(found) == ["large", "gone", "small"], "the largest first"
    assert {name: (one.state, one.sizes, one.users) for name, one in found.items()} == {
        "large": ("Progressing", "75Gi of 300Gi", ()),
        "gone": ("missing", "20Gi", ()),
        "small": ("Ready", "8Gi of 10Gi", ("chat-0",)),
    }
    assert found["large"].share == 25
    assert found["small"].kept == "in use by pod chat-0"


@pytest.mark.spec("FW-672")
@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("used", ["large", "small", "gone"]),
        ("users", ["small", "gone", "large"]),
        ("last", ["gone", "large", "small"]),
        ("name", ["gone", "large", "small"]),
        ("nonsense", ["large", "gone", "small"]),
    ],
)
def test_volumes_are_sorted_by_what_one_looks_for(order: str, names: list[str]) -> None:
    assert [one.artifact.name for one in listed(order)] == names


@pytest.mark.spec("FW-672")
def test_the_page_finds_volumes_and_says_by_what_it_sorts() -> None:
    content = capacity(KNOWN, NOW, "small", "used")
    assert (content["found"], [one.artifact.name for one in content["volumes"]]) == (1, ["small"])
    text = render("capacity.html", FRAME | content)
    assert 'aria-sort="descending"><a href="?sort=used&amp;q=small#volumes"' in text
    assert "8Gi of 10Gi" in text
    assert 'href="/objects/aimartifacts/team/small"' in text
    nothing = render("capacity.html", FRAME | capacity(KNOWN, NOW, "<b>", "size"))
    assert "No volume is called so" in nothing
    assert "<b>" not in nothing


@pytest.mark.spec("FW-631", "FW-609")
def test_a_limit_of_nothing_is_a_limit_and_used_up() -> None:
    namespace = make(NAMESPACE, "team", annotations={labels.ANNOTATION_STORAGE_QUOTA: "0"})
    known = Objects((AIM_ARTIFACT, SMALL), claim(SMALL, "10Gi"), (NAMESPACE, namespace))
    (reported,) = capacity(known, NOW)["limits"]
    assert reported == {"namespace": "team", "used": "10Gi", "limit": "0", "share": 100}


@pytest.mark.spec("FW-631")
def test_who_looks_for_free_gpus_is_reported_whose_pods_count() -> None:
    reported = {"amd.com/gpu.device-id": "74a1"}
    node = make(NODE, "n", labels=reported, spec={}, status={"allocatable": {"amd.com/gpu": "8"}})
    text = render("capacity.html", FRAME | capacity(Objects((NODE, node)), NOW))
    assert "By pods of the platform." in text
