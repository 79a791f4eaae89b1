"""Fills the cache: builds the programs, copies the definitions."""

import time
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TypeAlias

import yaml

from aim_local.assets.cache import Cache, completed, scratch
from aim_local.assets.golang import AssetError, Go
from aim_local.assets.recipes import (
    DEFINITIONS,
    KUBEBUILDER,
    PROGRAMS,
    Definitions,
    DefinitionsRecipe,
    Group,
    Program,
    Wrapper,
)
from controller_runtime import JsonObject, dumps

Report: TypeAlias = Callable[[str], None]
"""Takes a line for people."""


def build_assets(
    cache: Cache, go: Callable[[], Go], report: Report, groups: AbstractSet[Group], given: frozenset[Program]
) -> None:
    """Make everything that is not in the cache yet; one line each.

    Args:
        cache: where to.
        go: finds the toolchain; asked only when something is to be made.
        report: takes a line for each thing that was made.
        groups: the programs that are wanted.
        given: programs that come from elsewhere (`KUBEBUILDER_ASSETS`).

    Raises:
        AssetError: something can't be had.
    """
    if not (_missing_definitions(cache) or _missing_programs(cache, groups, given)):
        return
    with cache.locked(report):
        # Looked at again: the process that held the lock may have made all of it.
        # Definitions come before the longer builds: tests of definitions alone need no more.
        for definitions in _missing_definitions(cache):
            begun = time.monotonic()
            _copy_definitions(cache, go(), definitions)
            _report(report, definitions, DEFINITIONS[definitions].wrapper, begun)
        for wrapper, programs in _missing_programs(cache, groups, given).items():
            begun = time.monotonic()
            _build(cache, go(), wrapper, programs)
            _report(report, ", ".join(programs), wrapper, begun)


def _missing_definitions(cache: Cache) -> list[Definitions]:
    return [one for one in DEFINITIONS if not cache.definitions(one).exists()]


def _missing_programs(
    cache: Cache, groups: AbstractSet[Group], given: Iterable[Program]
) -> dict[Wrapper, list[Program]]:
    found: dict[Wrapper, list[Program]] = {}
    for program, recipe in PROGRAMS.items():
        if program not in given and recipe.group in groups and not cache.program(program).exists():
            found.setdefault(recipe.wrapper, []).append(program)
    return found


def _build(cache: Cache, go: Go, wrapper: Wrapper, programs: Iterable[Program]) -> None:
    with scratch(cache.folder(wrapper)) as folder:
        go.build(wrapper, {one: PROGRAMS[one] for one in programs}, folder)
        for one in programs:
            (folder / one).rename(cache.program(one))


def _copy_definitions(cache: Cache, go: Go, definitions: Definitions) -> None:
    recipe = DEFINITIONS[definitions]
    with completed(cache.definitions(definitions)) as target:
        _copy(go.module_folder(recipe.wrapper), recipe, target)


def _report(report: Report, what: str, wrapper: Wrapper, begun: float) -> None:
    report(f"{what:<24} {wrapper.version:<40} {time.monotonic() - begun:6.1f} s")


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
