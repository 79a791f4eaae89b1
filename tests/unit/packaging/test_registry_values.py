"""The value `registries` is what the pages show, and the schema knows what the services can read."""

import re
from pathlib import Path
from typing import Final

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from aim_packaging.values import RegistryMirror, RegistryRules, RegistryUpstream, Values
from controller_runtime import JsonObject
from oci_registry import mirrors
from oci_registry.mirrors import parse_registries

DOCS: Final = Path(__file__).parents[3] / "docs"
HOST: Final = "docker.io"


def shown(page: str) -> JsonObject:
    """The value on a page of the documentation."""
    blocks = re.findall(r"```yaml\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    [found] = [yaml.safe_load(one)["registries"] for one in blocks if "\nregistries:" in f"\n{one}"]
    return dict(found)


@pytest.mark.spec("FW-769")
@pytest.mark.parametrize("page", ["model-catalogue.md", "guides/air-gap.md"])
def test_what_the_pages_show_is_a_value_and_what_the_services_read(page: str) -> None:
    value = shown(page)
    assert HOST in value
    Values.model_validate({"registries": value})
    read = parse_registries(yaml.safe_dump({"registries": value}))
    assert read.rules_for(HOST).mirrors[0].url == "https://harbor.corp/hub-proxy"


@pytest.mark.spec("FW-769")
@pytest.mark.parametrize(
    "value",
    [
        {"registries": {HOST: {"mirrors": []}}},
        {HOST: {"mirror": []}},
        {HOST: {"mirrors": [{"ur": "https://m"}]}},
        {HOST: {"mirrors": [{"url": "m.example"}]}},
        {HOST: {"mirrors": [{"url": "https://user@m.example"}]}},
        {HOST: {"mirrors": [{}]}},
        {HOST: {"mirrors": {"url": "https://m"}}},
        {HOST: {"upstream": {"enable": False}}},
        {HOST: {"upstream": {"enabled": "no, thanks"}}},
        {HOST: []},
        {"https://docker.io": {}},
        {"docker.io/library": {}},
        [],
    ],
)
def test_what_the_services_would_not_read_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        Values.model_validate({"registries": value})


@pytest.mark.spec("FW-769")
@pytest.mark.parametrize(
    "host", ["docker.io", "registry.lab:5000", "*", "localhost", "10.0.0.1:5000", "[fd00::1]:5000"]
)
def test_every_form_of_a_host_is_a_key(host: str) -> None:
    Values.model_validate({"registries": {host: {"upstream": {"plainHttp": True}}}})


@pytest.mark.spec("FW-769")
@pytest.mark.parametrize(
    ("value", "read"),
    [
        (RegistryMirror, mirrors.Mirror),
        (RegistryUpstream, mirrors.Upstream),
        (RegistryRules, mirrors.RegistryRules),
    ],
)
def test_values_and_services_know_the_same_names(value: type[BaseModel], read: type[BaseModel]) -> None:
    def names(model: type[BaseModel]) -> set[str]:
        return {field.alias or name for name, field in model.model_fields.items()}

    assert names(value) == names(read)
