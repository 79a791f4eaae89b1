"""The process around a service: settings, leadership, worker loop, effects, HTTP endpoints."""
