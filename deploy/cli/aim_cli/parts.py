"""All parts of the platform with the models of their objects, for commands that decide."""

from typing import Any

from aim_domain import parts
from controller_runtime import Part

PARTS: tuple[Part[Any], ...] = tuple(part for part in vars(parts).values() if isinstance(part, Part))
