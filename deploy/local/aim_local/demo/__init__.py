"""The demo: from `kubectl apply` to an answer, on one machine, with a look at what happens in between."""

from aim_local.demo.run import DemoError, DemoSettings, demo

__all__ = ["DemoError", "DemoSettings", "demo"]
