"""Fixtures of the tests against real programs; they are no part of `make test`."""

from support.real_cluster import api, namespace, real_cluster

__all__ = ["api", "namespace", "real_cluster"]
