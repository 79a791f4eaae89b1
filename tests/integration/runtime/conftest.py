"""Whole services as processes, between a control plane and a broker."""

from support.runtime_fixtures import api, controlplane, stage

__all__ = ["api", "controlplane", "stage"]
