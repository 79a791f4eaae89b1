"""Routing: turns AIMServices into Gateway API HTTPRoutes."""
