"""What is pinned, and that the embedded control plane's definitions come from the same versions."""

import re
from pathlib import Path

import pytest
import yaml

from aim_local.assets.recipes import (
    DEFINITIONS,
    KUBERNETES,
    PROGRAMS,
    WRAPPERS,
    Definitions,
    DefinitionsRecipe,
    Program,
    ProgramRecipe,
    linker_flags,
)
from aim_local.assets.reduced import FILES, FRAMEWORKS, differing, reduced, reduced_schemas
from controller_runtime import JsonObject, loads
from embedded_apiserver import EXTERNAL_CRDS

STAGING = re.compile(r"^\t(k8s\.io/\S+) => k8s\.io/\S+ (v\S+)$", re.MULTILINE)


@pytest.mark.parametrize("recipe", [*PROGRAMS.values(), *DEFINITIONS.values()], ids=[*PROGRAMS, *DEFINITIONS])
def test_every_wrapper_pins_a_version_and_checksums(recipe: ProgramRecipe | DefinitionsRecipe) -> None:
    wrapper = recipe.wrapper
    if not wrapper.module:
        assert "require" not in (wrapper.folder / "go.mod").read_text(), "a module of others needs a name in the table"
        return
    sums = (wrapper.folder / "go.sum").read_text()
    assert f"{wrapper.module} {wrapper.version} h1:" in sums


def test_staging_modules_have_the_version_of_kubernetes() -> None:
    versions = {version for _, version in STAGING.findall((WRAPPERS / "kubernetes" / "go.mod").read_text())}
    assert versions == {KUBERNETES.version.replace("v1.", "v0.", 1)}


def test_programs_tell_the_version_they_are_built_from() -> None:
    flags = linker_flags([PROGRAMS[Program.APISERVER], PROGRAMS[Program.KUBECTL]])
    assert f"-X k8s.io/component-base/version.gitVersion={KUBERNETES.version}" in flags
    assert "-X k8s.io/component-base/version.gitMinor=34" in flags
    number = DEFINITIONS[Definitions.KEDA].wrapper.version.removeprefix("v")
    assert linker_flags([PROGRAMS[Program.KEDA]]).endswith(f"/version.Version={number}")


@pytest.mark.parametrize("source", [Definitions.KSERVE, Definitions.GATEWAY, Definitions.KEDA])
def test_embedded_definitions_come_from_the_pinned_module(source: Definitions) -> None:
    wrapper = DEFINITIONS[source].wrapper
    first = (EXTERNAL_CRDS / FILES[source]).read_text().partition("\n")[0]
    assert first.startswith(f"# From {wrapper.module} {wrapper.version} by "), "run `make external-crds`"


@pytest.mark.spec("FW-515")
def test_the_schemas_of_built_in_kinds_come_from_the_pinned_module() -> None:
    wrapper = DEFINITIONS[Definitions.KUBERNETES].wrapper
    made = loads((EXTERNAL_CRDS / FILES[Definitions.KUBERNETES]).read_bytes())["comment"]
    assert made.startswith(f"From {wrapper.module} {wrapper.version} (Apache-2.0) by "), "run `make external-crds`"


def test_schemas_are_taken_with_all_that_they_refer_to() -> None:
    reference = {"$ref": "#/components/schemas/io.k8s.api.core.v1.Part"}
    named = [{"group": "", "version": "v1", "kind": "Pod"}]
    schemas = {
        "io.k8s.api.core.v1.Pod": {"properties": {"p": reference}, "x-kubernetes-group-version-kind": named},
        "io.k8s.api.core.v1.Part": {"description": "gone", "type": "string"},
        "io.k8s.api.core.v1.Other": {"type": "object"},
    }
    assert reduced_schemas([{"components": {"schemas": schemas}}]) == {
        "io.k8s.api.core.v1.Part": {"type": "string"},
        "io.k8s.api.core.v1.Pod": schemas["io.k8s.api.core.v1.Pod"],
    }


def test_a_missing_file_differs_like_a_changed_one(tmp_path: Path) -> None:
    (tmp_path / "same").write_text("x")
    (tmp_path / "changed").write_text("y")
    assert differing(tmp_path, {"same": "x", "changed": "x", "missing": "x"}) == ["changed", "missing"]


def definition() -> JsonObject:
    text = """
    apiVersion: apiextensions.k8s.io/v1
    kind: CustomResourceDefinition
    metadata: {name: inferenceservices.x, annotations: {a: b}}
    spec:
      names: {kind: InferenceService}
      versions:
        - {name: v0, storage: false, schema: {openAPIV3Schema: {type: object}}}
        - name: v1
          storage: true
          schema:
            openAPIV3Schema:
              description: gone
              properties:
                spec:
                  properties:
                    explainer: {type: object, properties: {x: {type: string}}}
                    transformer: {type: object}
                    description: {type: string, description: gone}
                    predictor: {properties: PREDICTOR}
    """
    predictor = {name: {"type": "object", "required": ["x"]} for name in ("workerSpec", *FRAMEWORKS)}
    loaded: JsonObject = yaml.safe_load(text.replace("PREDICTOR", str(predictor)))
    return loaded


def test_a_definition_is_reduced_to_what_is_used() -> None:
    [version] = reduced(definition())["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    spec = schema["properties"]["spec"]["properties"]
    assert version["name"] == "v1"
    assert "description" not in schema
    assert spec["description"] == {"type": "string"}
    assert spec["explainer"] == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert spec["predictor"]["properties"]["onnx"] == spec["explainer"]


def test_a_member_that_upstream_no_longer_has_is_reported() -> None:
    changed = definition()
    del changed["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["explainer"]
    with pytest.raises(AssertionError, match=r"spec\.explainer is no member any more"):
        reduced(changed)
