"""The control plane and broker of services whose clock is set."""

from support.runtime_fixtures import api, controlplane, stage

__all__ = ["api", "controlplane", "stage"]
