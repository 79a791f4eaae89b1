"""Fixtures of the reconcile engine's integration tests."""

from support.reconcile_bench import bench

__all__ = ["bench"]
