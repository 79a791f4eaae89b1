"""One table of values gives the defaults, their meaning and the schema."""

import base64
import json
import re
from contextlib import nullcontext
from pathlib import Path

import nkeys
import pytest
import yaml
from pydantic import ValidationError

from aim_packaging.chart import schema_json, values_yaml
from aim_packaging.keys import manifests, new_key
from aim_packaging.values import Traces, Values, Workload

POD_SECTIONS = ("Workload", "Nats")


@pytest.mark.spec("FW-537", "FW-326")
def test_the_file_of_values_says_the_defaults_and_no_more() -> None:
    assert yaml.safe_load(values_yaml()) == Values().model_dump(by_alias=True)


@pytest.mark.spec("FW-320")
def test_values_of_the_older_chart_keep_their_names_and_defaults() -> None:
    values = yaml.safe_load(values_yaml())
    manager = values["manager"]
    assert manager["replicas"] == 1
    assert manager["image"]["repository"] == "docker.io/amdenterpriseai/aim-engine"
    assert manager["args"] == ["--leader-elect"]
    assert manager["resources"]["limits"] == {"cpu": "500m", "memory": "4Gi"}
    assert manager["resources"]["requests"] == {"cpu": "100m", "memory": "256Mi"}
    assert manager["securityContext"]["readOnlyRootFilesystem"] is True
    assert values["rbacHelpers"]["enabled"] is True
    assert values["prometheus"]["enabled"] is False
    assert (values["clusterRuntimeConfig"]["enabled"], values["clusterRuntimeConfig"]["name"]) == (False, "default")


@pytest.mark.spec("FW-537")
def test_a_name_that_is_none_is_refused_everywhere() -> None:
    with pytest.raises(ValidationError, match="replica"):
        Workload.model_validate({"replica": 2})
    schema = json.loads(schema_json())
    assert schema["additionalProperties"] is False
    assert all(one["additionalProperties"] is False for name, one in schema["$defs"].items() if name != "Global")
    assert schema["$defs"]["Services"]["properties"]["serving"] == {"$ref": "#/$defs/Workload"}


@pytest.mark.spec("FW-708")
def test_labels_of_selectors_sections_and_the_port_of_the_probes_may_not_be_taken() -> None:
    schema = json.loads(schema_json())
    defs = schema["$defs"]
    selected = {f"app.kubernetes.io/{name}" for name in ("name", "instance", "component")}
    for labels in (schema["properties"]["commonLabels"], *(defs[of]["properties"]["podLabels"] for of in POD_SECTIONS)):
        assert selected <= {name for name, may_be in labels["properties"].items() if may_be is False}
    assert {"nats", "metrics", "services", "manager"} <= set(schema["required"])
    assert defs["Nats"]["required"] == sorted(defs["Nats"]["properties"].keys() - {"enable"})
    assert defs["Metrics"]["properties"]["port"]["not"] == {"const": 8081}


@pytest.mark.spec("FW-572")
@pytest.mark.parametrize(
    ("ratio", "fits"), [(0.1, True), ("0.1", True), ("1", True), ("1.1", False), ("", False), ("a", False), (2, False)]
)
def test_a_share_may_be_text_because_helm_set_makes_that_of_it(ratio: object, *, fits: bool) -> None:
    declared = json.loads(schema_json())["$defs"]["Traces"]["properties"]["sampleRatio"]
    [text] = [one for one in declared["anyOf"] if one["type"] == "string"]
    if isinstance(ratio, str):
        assert bool(re.search(text["pattern"], ratio)) is fits
    with nullcontext() if fits else pytest.raises(ValidationError):
        Traces.model_validate({"sampleRatio": ratio})


@pytest.mark.spec("FW-535")
def test_the_secret_of_a_user_belongs_to_its_public_key() -> None:
    secrets, values = manifests("aim-engine-nats-", "n", {user: new_key() for user in ("aim", "aim-serving")})
    public = yaml.safe_load(values)["nats"]["auth"]["publicKeys"]
    for secret in yaml.safe_load_all(secrets):
        seed = base64.b64decode(secret["data"]["user.nk"])
        user = secret["metadata"]["name"].removeprefix("aim-engine-nats-")
        assert nkeys.from_seed(bytearray(seed)).public_key.decode() == public[user]  # type: ignore[no-untyped-call]
    assert len(set(public.values())) == 2
    Values.model_validate(yaml.safe_load(values))


@pytest.mark.spec("FW-323", "FW-340", "FW-539")
def test_the_plain_manifests_are_those_of_a_restricted_namespace() -> None:
    folder = Path(__file__).parents[3] / "deploy" / "manifests"
    namespace = yaml.safe_load((folder / "namespace.yaml").read_text())
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    objects = list(yaml.safe_load_all((folder / "aim-engine.yaml").read_text()))
    table = yaml.safe_load((folder.parent / "charts/aim-engine/files/permissions.yaml").read_text())["services"]
    roles = {one["metadata"]["name"]: one["rules"] for one in objects if one["kind"] == "ClusterRole"}
    for name, own in table.items():
        assert roles[f"aim-engine-{name}"] == [*own["cluster"], *own["direct"]], "run `make manifests`"
