"""Fixtures of this folder."""

from support.controlplane import api, controlplane

__all__ = ["api", "controlplane"]
