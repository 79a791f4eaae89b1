"""The programs and definitions of a real cluster: built once per machine from their published Go modules."""

from aim_local.assets.build import build_assets
from aim_local.assets.cache import Cache
from aim_local.assets.golang import AssetError
from aim_local.assets.recipes import Definitions, Program
from aim_local.assets.toolset import Toolset, find_toolset

__all__ = ["AssetError", "Cache", "Definitions", "Program", "Toolset", "build_assets", "find_toolset"]
