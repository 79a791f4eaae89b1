"""The message broker: connection, streams, and how they are read."""
