"""The profiles of an image as files: listed by a shell, kept in a ConfigMap, understood (docs/spec/profiles.md)."""

import base64
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.builders import make

from aim_discovery.profiles.catalogue import (
    LARGEST,
    MOST,
    SCRIPT,
    CatalogueError,
    catalogue_of,
    config_map_data,
    parse_log,
)
from aim_domain.kinds import CONFIG_MAP
from controller_runtime.core import ConfigMap

METADATA = {
    "engine": "vllm",
    "accelerator_model": "MI300X",
    "accelerator_count": 1,
    "metric": "latency",
    "precision": "fp8",
}


def file(**content: Any) -> str:
    return yaml.safe_dump({"model_id": "org/model", "metadata": METADATA, **content})


def kept(files: dict[str, str], aim_id: str = "org/model") -> ConfigMap:
    data = {f"profiles.{path.replace('/', '__')}": text for path, text in files.items()}
    data["metadata.json"] = f'{{"aimId":"{aim_id}","baseImage":"x/base:1.2","sourceImage":"a/b:1"}}'
    return ConfigMap.model_validate({**make(CONFIG_MAP, "c"), "data": data})


@pytest.mark.spec("PR-091", "PR-094")
def test_the_script_lists_the_files_of_a_model_and_the_general_ones(tmp_path: Path) -> None:
    for path in ("org/model/a.yaml", "org/model/deep/b.yaml", "org/model/note.txt", "general/c.yaml", "other/d.yaml"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"text of {path}\n'quoted' $HOME", encoding="utf-8")
    env = {
        "PATH": os.environ["PATH"],
        "AIM_PROFILES": str(tmp_path),
        "AIM_ID": "org/model",
        "AIM_BASE_IMAGE_REF": "x/base:1",
    }
    ran = subprocess.run(["sh", "-c", SCRIPT], env=env, capture_output=True, text=True, check=True)
    printed = parse_log(f"noise of the image\n{ran.stdout}")
    assert sorted(printed.files) == ["general/c.yaml", "org/model/a.yaml", "org/model/deep/b.yaml"]
    assert printed.files["org/model/a.yaml"] == "text of org/model/a.yaml\n'quoted' $HOME"
    assert (printed.aim_id, printed.base_image) == ("org/model", "x/base:1")
    bare = subprocess.run(
        ["sh", "-c", SCRIPT], env={"PATH": os.environ["PATH"], "AIM_PROFILES": str(tmp_path / "none")},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    empty = parse_log(bare.stdout)
    assert (empty.files, empty.aim_id, empty.base_image) == ({}, "", "")
    data = config_map_data(printed, "a/b:1", "hash")
    assert sorted(data) == [
        "metadata.json",
        "profiles.general__c.yaml",
        "profiles.org__model__a.yaml",
        "profiles.org__model__deep__b.yaml",
    ]


@pytest.mark.spec("PR-094")
@pytest.mark.parametrize(
    ("log", "why"),
    [
        ("", "not complete"),
        ("AIM-PROFILE a.yaml eA==\n", "not complete"),
        ("AIM-PROFILE a.yaml ???\nAIM-END\n", "cannot be decoded"),
        (
            f"AIM-PROFILE a.yaml {base64.b64encode(b'x' * (LARGEST + 1)).decode()}\nAIM-END\n",
            f"more than {LARGEST} bytes",
        ),
        (f"AIM-PROFILE a.yaml {base64.b64encode(bytes([1]) * (LARGEST // 5)).decode()}\nAIM-END\n", "more than"),
        (f"{''.join(f'AIM-PROFILE {n}.yaml eA==' + chr(10) for n in range(MOST + 1))}AIM-END\n", f"more than {MOST}"),
        (f"AIM-IMAGE eA== {base64.b64encode(b'x' * 1025).decode()}\nAIM-END\n", "more than 1024 characters"),
    ],
)
def test_what_is_no_catalogue_is_not_kept(log: str, why: str) -> None:
    with pytest.raises(CatalogueError, match=why):
        parse_log(log)


@pytest.mark.spec("PR-093")
def test_a_file_is_a_profile_with_weights_or_without() -> None:
    found = catalogue_of(
        kept(
            {
                "org/model/own.yaml": file(
                    aim_id="org/other",
                    engine_args={"x": None, 1: {2: "2024-01-01"}, "largest": 2**63 - 1},
                    env_vars={"A": 1, "B": True, "C": None},
                    metadata={**METADATA, "primary": True, "type": "preview", "features": ["adapters"]},
                ),
                "org/model/older.yaml": file(metadata={"gpu": "MI325X", "gpu_count": 2, "precision": "FP8"}),
                "org/model/base.yaml": yaml.safe_dump({"metadata": METADATA}),
            }
        )
    )
    base, older, own = found.entries
    assert own.spec == {
        "acceleratorModel": "MI300X",
        "acceleratorCount": 1,
        "acceleratorType": "gpu",
        "profileId": "own",
        "engine": "vllm",
        "metric": "latency",
        "precision": "fp8",
        "type": "preview",
        "features": ["adapters"],
        "engineArgs": {"x": None, "1": {"2": "2024-01-01"}, "largest": 2**63 - 1},
        "engineEnv": {"A": "1", "B": "true"},
        "aimId": "org/other",
        "modelId": "org/model",
        "modelSources": [{"modelId": "org/model", "sourceUri": "hf://org/model"}],
    }
    assert (own.is_primary, older.is_primary) == (True, None)
    assert (older.spec["acceleratorModel"], older.spec["acceleratorCount"], older.spec["precision"]) == (
        "MI325X",
        2,
        "fp8",
    )
    assert older.spec["aimId"] == "org/model", "the image's"
    assert not {"aimId", "modelSources"} & base.spec.keys()
    assert (found.aim_id, found.base_image, found.image) == ("org/model", "x/base:1.2", "a/b:1")


@pytest.mark.spec("PR-093")
def test_general_files_count_where_the_image_has_no_others() -> None:
    files = {"general/g.yaml": file(), "org/model/own.yaml": file()}
    assert [one.profile_id for one in catalogue_of(kept(files)).entries] == ["own"]
    assert [one.profile_id for one in catalogue_of(kept(files, aim_id="")).entries] == ["g", "own"]
    assert [one.profile_id for one in catalogue_of(kept({"general/g.yaml": file()})).entries] == ["g"]


@pytest.mark.spec("PR-093")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is no YAML"),
        ("- a", "has no metadata"),
        ("a: &a [1]\nmetadata: {}\nengine_args: {x: *a, y: *a}", "has YAML aliases"),
        ("a: &a [*a]\nmetadata: {}", "has YAML aliases"),
        ("[" * 5000, "is no YAML"),
        ("metadata: {}\nengine_args: {x: !!timestamp 2024-13-45}", "is no YAML"),
        ("metadata: {}\nengine_args: {x: !!timestamp 2024-01-01}", "a value that JSON does not have: date"),
        ("metadata: {}\nengine_args: {x: !!binary aGk=}", "a value that JSON does not have"),
        ("metadata: {}\nengine_args: {x: {y: !!set {a, b}}}", "a value that JSON does not have"),
        ("metadata: {}\nengine_args: {x: !!omap [a: 1]}", "a value that JSON does not have"),
        ("metadata: {}\nengine_args: {x: .nan}", "a value that JSON does not have: nan"),
        ("metadata: {}\nengine_args: {x: [-.inf]}", "a value that JSON does not have: -inf"),
        ("metadata: {}\nengine_args: {x: 9223372036854775808}", "a value that JSON does not have"),
        ("metadata: {}\nengine_args: {x: " + "[" * 40 + "]" * 40 + "}", "is nested more than 32 deep"),
        (file(env_vars={"A": [1]}), "env_vars 'A' is no variable"),
        (file(env_vars={"A=B": "1"}), "env_vars 'A=B' is no variable"),
        (file(metadata={**METADATA, "variant": "FP8_Mixed"}), "variant 'FP8_Mixed' has more than"),
        (file(metadata={**METADATA, "accelerator_count": 1025}), "is no number of accelerators"),
        ("metadata: 7", "has no metadata"),
        (file(model_id="../../etc"), "is no organisation/name"),
        (file(engine_args=[1]), "is no mapping"),
        (file(metadata={**METADATA, "accelerator_model": "MI 300"}), "is no name of a label"),
        (file(metadata={**METADATA, "accelerator_count": -1}), "is no number of accelerators"),
        (file(metadata={**METADATA, "accelerator_count": True}), "is no number of accelerators"),
    ],
)
def test_a_file_that_is_no_profile_is_named_and_left_out(text: str, why: str) -> None:
    found = catalogue_of(kept({"org/model/bad.yaml": text, "org/model/good.yaml": file()}))
    assert [one.profile_id for one in found.entries] == ["good"]
    (problem,) = found.problems
    assert problem.startswith("bad: ")
    assert why in problem


@pytest.mark.spec("PR-093")
def test_words_that_the_api_does_not_know_are_left_out() -> None:
    odd = {**METADATA, "metric": "joy", "precision": "auto", "type": 7, "accelerator_type": "tpu", "features": "x"}
    (entry,) = catalogue_of(kept({"org/model/odd.yaml": file(metadata=odd)})).entries
    assert not {"metric", "precision", "type"} & entry.spec.keys()
    assert entry.spec["acceleratorType"] == "gpu"


@pytest.mark.spec("PR-093")
def test_a_file_whose_name_is_no_key_is_named() -> None:
    files = {"org/model/with space.yaml": file(), "org/model/good.yaml": file()}
    lines = [f"AIM-PROFILE {path} {base64.b64encode(text.encode()).decode()}" for path, text in files.items()]
    printed = parse_log("\n".join([*lines, "AIM-END"]))
    assert dict(printed.files) == files
    data = config_map_data(printed, "a/b:1", "hash")
    found = catalogue_of(ConfigMap.model_validate({**make(CONFIG_MAP, "c"), "data": data}))
    assert [one.profile_id for one in found.entries] == ["good"]
    assert found.problems == ("org/model/with space.yaml: its name is no key of a ConfigMap",)


@pytest.mark.spec("PR-112")
@pytest.mark.parametrize("data", [{}, {"metadata.json": "{"}, {"metadata.json": "[]"}, {"other": "x"}])
def test_a_config_map_that_is_no_catalogue_says_why(data: dict[str, str]) -> None:
    with pytest.raises(CatalogueError):
        catalogue_of(ConfigMap.model_validate({**make(CONFIG_MAP, "c"), "data": data}))
