"""Every test of this folder may use a broker, and a log that decisions are taken again from."""

from support.nats import bus, layout, nats_server
from support.replay_log import log

__all__ = ["bus", "layout", "log", "nats_server"]
