"""Fixtures of the end-to-end tests."""

from support.stack import platform

__all__ = ["platform"]
