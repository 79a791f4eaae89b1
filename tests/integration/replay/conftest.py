"""Every test of this folder may use a broker."""

from support.nats import bus, layout, nats_server

__all__ = ["bus", "layout", "nats_server"]
