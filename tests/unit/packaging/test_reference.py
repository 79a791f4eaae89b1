"""The reference pages say all there is to say."""

from pathlib import Path

import pytest

from aim_domain.crd.manifests import definition
from aim_domain.kinds import AIM_ARTIFACT, AIM_SERVICE, OWN_KINDS
from aim_packaging.reference import kinds_pages, settings_page, values_page
from aim_packaging.reference.pages import outdated, write
from controller_runtime import JsonObject

PAGES = Path(__file__).parents[3] / "docs" / "reference"


@pytest.mark.spec("FW-651")
def test_the_pages_are_up_to_date() -> None:
    assert outdated(PAGES) == []


@pytest.mark.spec("FW-651")
def test_what_is_changed_missing_or_too_much_is_reported(tmp_path: Path) -> None:
    write(tmp_path)
    assert outdated(tmp_path) == []
    (tmp_path / "settings.md").write_text("changed", encoding="utf-8")
    (tmp_path / "values.md").unlink()
    (tmp_path / "old.md").touch()
    assert [path.name for path in outdated(tmp_path)] == ["settings.md", "values.md", "old.md"]


@pytest.mark.spec("FW-651")
def test_there_is_a_page_for_each_kind() -> None:
    assert {name.removesuffix(".md") for name in kinds_pages.pages()} == {kind.singular for kind in OWN_KINDS}


@pytest.mark.spec("FW-651")
@pytest.mark.parametrize(
    "line",
    [
        (
            "  - **`mode`** *string*: Dedicated or Shared; Auto and Always mean Shared, Never"
            ' means Dedicated. One of `Dedicated`, `Shared`, `Auto`, `Always`, `Never`. Default `"Shared"`.'
        ),
        "- **`maxReplicas`** *int32*: Maximum number of replicas for autoscaling. At least 1.",
        "    - **`type`** *string*: Source of the metric. Required. One of `PodMetric`.",
        "| `spec.caching` | caching is immutable | `self == oldSelf` |",
        "| Status | `.status.status` |",
    ],
)
def test_a_page_has_fields_with_limits_rules_and_columns(line: str) -> None:
    assert line in kinds_pages.page(definition(AIM_SERVICE)).splitlines()


@pytest.mark.spec("FW-651")
def test_amounts_have_a_type_instead_of_a_pattern() -> None:
    spec = kinds_pages.page(definition(AIM_ARTIFACT)).partition("## status")[0]
    (line,) = (one for one in spec.splitlines() if one.startswith("- **`size`**"))
    assert "*quantity*" in line
    assert "Pattern" not in line


@pytest.mark.spec("FW-651")
def test_what_kubernetes_documents_is_not_repeated() -> None:
    page = kinds_pages.page(definition(AIM_SERVICE))
    assert "- **`env`** *object[]*: " in page
    assert "**`valueFrom`**" not in page


@pytest.mark.spec("FW-651")
def test_members_of_maps_and_of_items_stand_below_them() -> None:
    schema: JsonObject = {
        "properties": {
            "byName": {"additionalProperties": {"properties": {"size": {"type": "integer"}}, "type": "object"}},
            "all": {"items": {"properties": {"size": {"type": "integer", "minimum": 1, "maximum": 5}}}},
        }
    }
    crd = definition(AIM_SERVICE)
    crd["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": {"properties": {"spec": schema}}}
    page = kinds_pages.page(crd)
    assert "- **`byName`** *object{}*\n  - **`size`** *integer*\n" in page
    assert "- **`all`** *any[]*\n  - **`size`** *integer*: At least 1, at most 5.\n" in page


@pytest.mark.spec("FW-651")
def test_settings_and_values_are_listed_once_with_their_defaults() -> None:
    settings = settings_page.page()
    assert settings.count("| `AIM_NATS_REPLICAS` | `--nats-replicas` | `1` | stream replicas |") == 1
    assert "## Of model-sync alone" in settings
    assert "| `manager.replicas` | `1` | one replica leads; " in values_page.page()
