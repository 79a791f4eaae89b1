"""The event bus: streams, publisher and the world that services project from it."""
