"""The alias for a decoded JSON value of any shape."""

from typing import Any, TypeAlias

JsonValue: TypeAlias = Any
"""Object, list, string, number, boolean or null: what these modules walk over without a model."""
