"""The programs and definitions as those find them who use them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aim_local.assets.build import given_programs
from aim_local.assets.cache import Cache
from aim_local.assets.golang import AssetError
from aim_local.assets.recipes import PROGRAMS, Definitions, Program
from controller_runtime import JsonObject, loads


@dataclass(frozen=True, slots=True)
class Toolset:
    """What was built, and what `KUBEBUILDER_ASSETS` replaces.

    Attributes:
        cache: where built things lie.
        given: folder with programs that replace built ones.
    """

    cache: Cache
    given: Path | None = None

    def program(self, program: Program) -> Path:
        """A program to run.

        Raises:
            AssetError: it was not built.
        """
        if self.given is not None and (self.given / program).exists():
            return self.given / program
        path = self.cache.program(program)
        if not path.exists():
            raise AssetError(f"{program} is not built ({path} does not exist): run `{PROGRAMS[program].group}`")
        return path

    def definitions(self, definitions: Definitions) -> list[JsonObject]:
        """Documents of a module, in order of their files' names; of Lists the items.

        Raises:
            AssetError: they were not copied.
        """
        objects = [loads(file.read_bytes()) for file in sorted(self._folder(definitions).iterdir())]
        return [item for one in objects for item in (one["items"] if one.get("kind") == "List" else [one])]

    def require(self, *assets: Program | Definitions) -> None:
        """Find out that something is missing before anything is started.

        Raises:
            AssetError: one is not there.
        """
        for asset in assets:
            if isinstance(asset, Program):
                self.program(asset)
            else:
                self._folder(asset)

    def _folder(self, definitions: Definitions) -> Path:
        folder = self.cache.definitions(definitions)
        if not folder.exists():
            raise AssetError(f"{definitions} are not there ({folder} does not exist): run `make kube-assets`")
        return folder


def find_toolset(environment: Mapping[str, str] = os.environ) -> Toolset:
    """The toolset of this machine; nothing is built.

    Raises:
        AssetError: `KUBEBUILDER_ASSETS` names a folder that lacks a program.
    """
    folder = environment.get("KUBEBUILDER_ASSETS")
    given = Path(folder).absolute() if folder else None
    given_programs(given)
    return Toolset(Cache.from_environment(environment), given)
