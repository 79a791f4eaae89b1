"""Which subjects of the broker a service may use: its own to write, the JetStream API of the three streams, its inbox.

Whoever may make a consumer reads the whole stream, and whoever may delete a message by its sequence may delete any: the
broker knows no finer permission. So versions, markers, facts and decisions are told apart by who may *write* them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from controller_runtime import FACTS, JsonObject, ServiceDefinition
from controller_runtime.bus.connection import inbox_prefix
from controller_runtime.bus.subjects import Layout, encode_token

_READS: Final = ("STREAM.INFO.{}", "CONSUMER.CREATE.{}", "CONSUMER.INFO.{}.*", "CONSUMER.DELETE.{}.*")
_READS_MESSAGES: Final = ("CONSUMER.MSG.NEXT.{}.*", "STREAM.MSG.GET.{}", "DIRECT.GET.{}")
_MAKES: Final = ("STREAM.CREATE.{}", "STREAM.UPDATE.{}")
_SWEEPS: Final = "STREAM.MSG.DELETE.{}"


@dataclass(frozen=True, slots=True)
class BrokerUser:
    """A user of the broker by what it may publish to and subscribe to; everything else is denied."""

    name: str
    publish: tuple[str, ...]
    subscribe: tuple[str, ...]

    @property
    def permissions(self) -> JsonObject:
        """As nats-server has it in its configuration."""
        return {"publish": {"allow": list(self.publish)}, "subscribe": {"allow": list(self.subscribe)}}


def user_of(definition: ServiceDefinition, layout: Layout, domain: str = "") -> BrokerUser:
    """The user of a service."""
    publish = (*_written(definition, layout), *_api(layout, domain, writes=True))
    return BrokerUser(definition.field_manager, publish, _inbox(definition.field_manager))


def reader(layout: Layout, domain: str = "") -> BrokerUser:
    """The user of the command line, which reads the log and writes nothing."""
    return BrokerUser("aim", tuple(_api(layout, domain, writes=False)), _inbox("aim"))


def _inbox(name: str) -> tuple[str, ...]:
    return (f"{inbox_prefix(name)}.>",)


def _written(definition: ServiceDefinition, layout: Layout) -> Iterator[str]:
    own = encode_token(definition.name)
    for part in definition.publishes:
        yield layout.state_filter(part.name)
        yield layout.log_filter(part.name)
        yield layout.sync(part.name)
    yield layout.state_filter(FACTS.name, definition.name)
    yield layout.log_filter(FACTS.name, definition.name)
    yield layout.sync(FACTS.name, definition.name)
    yield f"{layout.root}.decision.{own}.>"


def _api(layout: Layout, domain: str, *, writes: bool) -> Iterator[str]:
    api = f"$JS.{domain}.API" if domain else "$JS.API"
    for stream in (layout.state_stream, layout.history_stream, layout.decisions_stream):
        for name in (*_READS, *_READS_MESSAGES, *(_MAKES if writes else ())):
            yield f"{api}.{name.format(stream)}"
    if writes:
        # Tombstones leave the present by their sequence; nothing ever leaves the past that way.
        yield f"{api}.{_SWEEPS.format(layout.state_stream)}"


def authorization(users: Iterable[tuple[BrokerUser, str]]) -> JsonObject:
    """The block of that name in the configuration of nats-server: users by their public NKeys, and nobody else."""
    return {"users": [{"nkey": public, "permissions": user.permissions} for user, public in users]}
