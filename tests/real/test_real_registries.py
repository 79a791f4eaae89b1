"""The value `registries`, through the real helm, as model-sync and discovery read it."""

from pathlib import Path
from typing import Final

import pytest
from support.helm import of_kind, rendered

from controller_runtime import JsonObject
from oci_registry.mirrors import parse_registries

VALUE: Final[JsonObject] = {
    "docker.io": {
        "mirrors": [{"url": "https://harbor.corp/hub-proxy", "secretName": "harbor-pull"}],
        "upstream": {"enabled": False},
    },
    "registry.lab:5000": {"upstream": {"plainHttp": True}},
}


@pytest.mark.spec("FW-769")
async def test_the_rendered_file_is_one_that_the_services_read(tmp_path: Path) -> None:
    done = await rendered(tmp_path, {"registries": VALUE})
    text = of_kind(done, "ConfigMap")["aim-engine-registries"]["data"]["registries.yaml"]
    read = parse_registries(text)
    assert [one.secret_name for one in read.rules_for("docker.io").mirrors] == ["harbor-pull"]
    assert not read.rules_for("docker.io").upstream.enabled
    assert read.rules_for("registry.lab:5000").upstream.plain_http
    assert read.rules_for("ghcr.io").upstream.enabled


@pytest.mark.spec("FW-769")
@pytest.mark.parametrize(
    "value",
    [
        {"registries": VALUE},
        {"docker.io": {"mirror": []}},
        {"docker.io": {"mirrors": [{"url": "https://m", "secret": "x"}]}},
        {"docker.io": {"upstream": {"enable": False}}},
        {"https://docker.io": {}},
    ],
)
async def test_helm_refuses_a_name_that_the_services_do_not_know(tmp_path: Path, value: JsonObject) -> None:
    done = await rendered(tmp_path, {"registries": value})
    assert done.status != 0
    assert "registries" in done.errors
