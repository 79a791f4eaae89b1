"""Fixtures of this folder."""

from support.cluster import backends
from support.controlplane import api, controlplane, kubectl

__all__ = ["api", "backends", "controlplane", "kubectl"]
