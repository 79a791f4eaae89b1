"""No field of any kind is without a bound, and what is larger is left out, refused or reported (CC-340, CC-341)."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import make
from support.crd_tables import nodes, published

from aim_discovery.models.expectation import excess, recommended
from aim_discovery.models.image_labels import limited, parse_labels
from aim_domain import ImageMetadata
from aim_domain.bounds import MAX_ENTRIES, MAX_STRING
from aim_domain.kinds import AIM_MODEL, AIM_RUNTIME_CONFIG, OLDER_KINDS, OWN_KINDS
from controller_runtime import Kind, dumps
from embedded_apiserver.objects.schema import Schema

_STANDARD = ("apiVersion", "kind", "metadata")


def _unbounded(kind: Kind[Any]) -> list[str]:
    return [
        path
        for path, node in nodes(published(kind))
        if path.split(".")[0] not in _STANDARD
        if (node.get("type") == "string" and not {"maxLength", "enum"} & node.keys())
        or (node.get("type") == "array" and "maxItems" not in node)
        or ("additionalProperties" in node and "maxProperties" not in node)
        or (node.get("x-kubernetes-int-or-string") and "maxLength" not in node)
    ]


@pytest.mark.spec("CC-340")
@pytest.mark.parametrize("kind", OWN_KINDS + OLDER_KINDS, ids=lambda kind: kind.kind)
def test_every_string_list_and_map_has_a_bound(kind: Kind[Any]) -> None:
    assert _unbounded(kind) == []


@pytest.mark.spec("CC-340", "CC-014", "CC-322")
def test_an_object_that_was_stored_with_more_is_read_and_may_change() -> None:
    schema = Schema.compile(published(AIM_RUNTIME_CONFIG))
    stored = make(AIM_RUNTIME_CONFIG, "old", spec={"labelPropagation": {"enabled": True, "match": ["*"] * 20_000}})
    assert schema.validate(stored) != []
    changed = {**stored, "status": {"observedGeneration": 1}}
    assert schema.validate(changed, stored) == []
    propagation = AIM_RUNTIME_CONFIG.model.model_validate(stored).spec.label_propagation
    assert propagation is not None
    assert len(propagation.match) == 20_000


@pytest.mark.spec("CC-341", "DI-119")
def test_what_an_image_says_beyond_the_bounds_is_left_out_and_named() -> None:
    entries = [{"gpuModel": "MI300X", "gpuCount": number} for number in range(5000)]
    labels = {
        "com.amd.aim.model.recommendedDeployments": dumps(entries).decode(),
        "com.amd.aim.model.tags": ",".join(f"t{number}" for number in range(1000)),
        "com.amd.aim.model.canonicalName": "a" * (MAX_STRING + 7),
        **{f"label-{number}": "x" for number in range(1000)},
    }
    metadata, left_out = limited(parse_labels(labels))
    assert left_out == [
        f"7 of {MAX_STRING + 7} characters of canonicalName",
        "744 of 1000 tags",
        "4936 of 5000 recommendedDeployments",
        "747 of 1003 labels",
    ]
    model = make(AIM_MODEL, "m", spec={"image": "a/b:1"}, status={"imageMetadata": metadata})
    assert Schema.compile(published(AIM_MODEL)).validate(model) == []
    assert len(metadata["originalLabels"]) == MAX_ENTRIES
    assert limited(metadata) == (metadata, [])


@pytest.mark.spec("CC-341", "DI-119")
def test_metadata_that_was_stored_with_more_gives_the_first_templates() -> None:
    entries = [{"gpuModel": "MI300X", "gpuCount": number} for number in range(5000)]
    metadata = ImageMetadata.model_validate({"model": {"recommendedDeployments": entries}})
    assert [one.gpu_count for one in recommended(metadata)] == list(range(64))
    assert excess(metadata) == "4936 of 5000 recommended deployments left out"
    assert excess(None) == ""
