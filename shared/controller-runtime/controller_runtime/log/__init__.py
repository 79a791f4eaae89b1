"""The log over NATS JetStream: streams, publishers, and the caches that services project from it."""
