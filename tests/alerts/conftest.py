"""Fixtures of the tests against a real Prometheus; they are no part of `make test`."""

from support.runtime_fixtures import api, controlplane, stage
from support.stack import platform

__all__ = ["api", "controlplane", "platform", "stage"]
