"""Fills the cache: builds the programs, copies the definitions."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

import yaml

from aim_local.assets.cache import Cache, completed
from aim_local.assets.golang import AssetError, Go
from aim_local.assets.recipes import DEFINITIONS, KUBEBUILDER, PROGRAMS, Definitions, DefinitionsRecipe, Program
from controller_runtime import JsonObject, dumps

Report: TypeAlias = Callable[[str], None]
"""Takes a line for people."""


def build_assets(cache: Cache, go: Callable[[], Go], report: Report, *, keda: bool, given: frozenset[Program]) -> None:
    """Make everything that is not in the cache yet; one line each.

    Args:
        cache: where to.
        go: finds the toolchain; asked only when something is to be made.
        report: is told what was made.
        keda: whether the optional programs are wanted.
        given: programs that come from elsewhere (`KUBEBUILDER_ASSETS`).

    Raises:
        AssetError: something can't be had.
    """
    if not _missing(cache, keda=keda, given=given):
        return
    with cache.locked(report):
        # Asked again: whoever held the lock may have made all of it.
        for asset in _missing(cache, keda=keda, given=given):
            begun = time.monotonic()
            version = _make(cache, go(), asset)
            report(f"{asset:<24} {version:<40} {time.monotonic() - begun:6.1f} s")


def _missing(cache: Cache, *, keda: bool, given: Iterable[Program]) -> list[Program | Definitions]:
    wanted = [one for one, recipe in PROGRAMS.items() if one not in given and (keda or not recipe.optional)]
    programs = [one for one in wanted if not cache.program(one).exists()]
    # Copied before the longer builds: tests of definitions alone need no more.
    return [*(one for one in DEFINITIONS if not cache.definitions(one).exists()), *programs]


def _make(cache: Cache, go: Go, asset: Program | Definitions) -> str:
    if isinstance(asset, Program):
        program = PROGRAMS[asset]
        with completed(cache.program(asset)) as target:
            go.build(program, target)
        return program.wrapper.version
    recipe = DEFINITIONS[asset]
    with completed(cache.definitions(asset)) as target:
        _copy(go.module_folder(recipe.wrapper), recipe, target)
    return recipe.wrapper.version


def _copy(module: Path, recipe: DefinitionsRecipe, target: Path) -> None:
    # As JSON: every start of a cluster reads them, and three megabytes of YAML take seconds.
    files = sorted(module.glob(recipe.pattern))
    if not files:
        raise AssetError(
            f"{recipe.wrapper.module} {recipe.wrapper.version} has no files {recipe.pattern}; "
            "correct the pattern in aim_local/assets/recipes.py"
        )
    target.mkdir()
    for file in files:
        (target / f"{file.stem}.json").write_bytes(dumps(_joined(file)))


def _joined(file: Path) -> JsonObject:
    """The document of a YAML file, or a List of its documents."""
    documents: list[JsonObject] = [one for one in yaml.load_all(file.read_bytes(), Loader=yaml.CSafeLoader) if one]
    return documents[0] if len(documents) == 1 else {"apiVersion": "v1", "kind": "List", "items": documents}


def given_programs(folder: Path | None) -> frozenset[Program]:
    """The programs that `KUBEBUILDER_ASSETS` brings.

    Raises:
        AssetError: the folder lacks one of them.
    """
    if folder is None:
        return frozenset()
    lacking = sorted(one for one in KUBEBUILDER if not (folder / one).exists())
    if lacking:
        raise AssetError(
            f"KUBEBUILDER_ASSETS={folder} lacks {', '.join(lacking)}; add what is missing or unset the variable"
        )
    return frozenset(one for one in Program if (folder / one).exists())
