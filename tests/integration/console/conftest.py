"""Fixtures of the tests of the console."""

from support.controlplane import api, controlplane

__all__ = ["api", "controlplane"]
