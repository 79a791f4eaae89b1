"""Image metadata from labels (section 4.7)."""

import pytest

from aim_discovery.models.image_labels import MalformedMetadataError, boolean, comma_list, deployments, parse_labels
from aim_local.registry.images import DEMO_IMAGES

AMD, SILOGEN, OCI = "com.amd.aim.", "org.amd.silogen.", "org.opencontainers.image."


@pytest.mark.spec("DI-104", "DI-105", "AC-01")
@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({AMD + "model.canonicalName": "test-model"}, "test-model"),
        ({SILOGEN + "model.canonicalName": "legacy-model"}, "legacy-model"),
        ({AMD + "model.canonicalName": "new", SILOGEN + "model.canonicalName": "old"}, "new"),
        ({AMD + "model.canonicalName": "", SILOGEN + "model.canonicalName": "legacy-model"}, "legacy-model"),
        ({}, None),
    ],
)
def test_the_newer_prefix_wins_unless_it_is_empty(labels: dict[str, str], name: str | None) -> None:
    assert parse_labels(labels)["model"].get("canonicalName") == name


@pytest.mark.spec("RC-138")
def test_deployments_are_read_of_either_prefix_but_not_of_the_label_of_older_pages() -> None:
    listed = '[{"gpuModel": "MI300X", "gpuCount": 1, "precision": "fp8", "metric": "latency", "profileId": "p"}]'
    for prefix in (AMD, SILOGEN):
        assert parse_labels({f"{prefix}model.recommendedDeployments": listed})["model"]["recommendedDeployments"]
        assert not parse_labels({f"{prefix}model.deployments": listed})["model"].get("recommendedDeployments")


@pytest.mark.spec("DI-104", "AC-02")
def test_prefixes_may_be_mixed_label_by_label() -> None:
    found = parse_labels(
        {
            AMD + "model.canonicalName": "new-model",
            SILOGEN + "model.source": "legacy-source",
            AMD + "model.tags": "tag1,tag2",
            SILOGEN + "model.versions": "v1,v2",
        }
    )
    assert found["model"] == {
        "canonicalName": "new-model",
        "source": "legacy-source",
        "tags": ["tag1", "tag2"],
        "versions": ["v1", "v2"],
    }


@pytest.mark.spec("DI-103", "AC-06")
def test_no_label_is_mandatory() -> None:
    assert parse_labels({}) == {"model": {}, "oci": {}, "originalLabels": {}}


@pytest.mark.spec("DI-106", "DI-107", "AC-08")
def test_standard_labels_and_originals_are_kept() -> None:
    names = [
        "title",
        "description",
        "licenses",
        "vendor",
        "authors",
        "source",
        "documentation",
        "created",
        "revision",
        "version",
    ]
    labels = {OCI + name: name.upper() for name in names}
    found = parse_labels({**labels, "other": "x"})
    assert found["oci"] == {name: name.upper() for name in names}
    assert found["originalLabels"] == {**labels, "other": "x"}


@pytest.mark.spec("DI-108", "AC-03")
@pytest.mark.parametrize(
    ("text", "items"),
    [("tag1 , tag2,", ["tag1", "tag2"]), (",a,b", ["a", "b"]), ("a,a", ["a", "a"]), ("", [])],
)
def test_comma_lists(text: str, items: list[str]) -> None:
    assert comma_list(text) == items


@pytest.mark.spec("DI-109", "AC-07")
def test_anything_but_a_spelling_of_true_is_false() -> None:
    assert all(boolean(text) for text in ("1", "t", "T", "true", "True", "TRUE"))
    assert not any(boolean(text) for text in ("0", "f", "false", "not-a-bool", "yes", "tRuE"))


@pytest.mark.spec("DI-110", "DI-111", "DI-113", "AC-04", "AC-05", "DI-P32")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[{"gpuModel": "MI300X", "gpuCount": 1}]', [{"gpuModel": "MI300X", "gpuCount": 1}]),
        ("[{'gpuModel': 'MI300X', 'gpuCount': 2}]", [{"gpuModel": "MI300X", "gpuCount": 2}]),
        ('{"gpuCount": 1}, {"gpuCount": 2}', [{"gpuCount": 1}, {"gpuCount": 2}]),
        ("{'gpuModel': 'MI300X'}, {'gpuCount': 2}", [{"gpuModel": "MI300X"}, {"gpuCount": 2}]),
        ("{'gpuCount': 1}", [{"gpuCount": 1}]),
        ('[{"description": "AMD\'s own"}]', [{"description": "AMD's own"}]),
        ('[{"profileId": "vllm-x", "unknown": {"a": 1}, "metric": null}]', [{"profileId": "vllm-x"}]),
    ],
)
def test_deployment_lists_in_every_spelling(text: str, expected: list[dict[str, object]]) -> None:
    assert deployments(text) == expected


@pytest.mark.spec("DI-112")
@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{invalid json", "{invalid json"),
        ('[{"gpuCount": "1"}]', "gpuCount"),
        ('[{"gpuCount": true}]', "gpuCount"),
        ('[{"metric": 5}]', "metric"),
        ("[1]", "1"),
        ("['a']", "'a'"),
        ('[{"gpuCount": 99999999999}]', "gpuCount"),
    ],
)
def test_a_list_that_is_none_is_malformed(text: str, what: str) -> None:
    with pytest.raises(MalformedMetadataError, match=f"recommendedDeployments.*{what}"):
        deployments(text)


@pytest.mark.spec("DI-110")
def test_every_image_of_the_demo_catalogue_is_understood() -> None:
    for image in DEMO_IMAGES:
        labels = image.labels(image.tags[0])
        if image.repository == "badcases/malformed-labels":
            with pytest.raises(MalformedMetadataError):
                parse_labels(labels)
        else:
            found = parse_labels(labels)["model"].get("recommendedDeployments") or []
            assert [one["gpuModel"] for one in found] == [profile.gpu for profile in image.profiles]


@pytest.mark.spec("DI-098")
def test_an_error_without_a_message_has_a_generic_one() -> None:
    assert str(MalformedMetadataError()) == "metadata malformed"
