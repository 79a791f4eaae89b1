"""Fixtures of the gallery of failures."""

from support.stack import platform

__all__ = ["platform"]
