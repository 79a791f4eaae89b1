"""Processes that are started, watched and ended with what started them."""

from aim_local.supervision.process import Probe, Program, StackError, Supervised

__all__ = ["Probe", "Program", "StackError", "Supervised"]
