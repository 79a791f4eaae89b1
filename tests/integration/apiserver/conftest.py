"""Fixtures of this folder: the embedded control plane from the inside."""

from support.controlplane import api, controlplane

__all__ = ["api", "controlplane"]
