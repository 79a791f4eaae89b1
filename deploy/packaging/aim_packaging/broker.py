"""Which subjects of the broker a service may use: its own to write, the JetStream API of the three streams, its inbox.

A user who may make a consumer reads the whole stream, and one who may delete a message by its sequence may delete any:
the broker knows no finer permission. So versions, checkpoints, facts and decisions are distinguished by who may *write*
them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from controller_runtime import JsonObject, ServiceDefinition
from controller_runtime.log import Layout, encode_token, facts_part_name, inbox_prefix

_LOOKS: Final = ("STREAM.INFO.{}", "STREAM.MSG.GET.{}")
_READS: Final = ("CONSUMER.CREATE.{}", "CONSUMER.INFO.{}.*", "CONSUMER.DELETE.{}.*", "CONSUMER.MSG.NEXT.{}.*")
_COUNTS: Final = ("CONSUMER.CREATE.{}", "CONSUMER.DELETE.{}.*")
_GOVERNS: Final = ("STREAM.CREATE.{}", "STREAM.UPDATE.{}")
_CONSUMERS: Final = "CONSUMER.LIST.{}"
_SWEEPS: Final = "STREAM.MSG.DELETE.{}"
_MANY_AT_ONCE: Final = "DIRECT.GET.{}"


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
    publish = (*_subjects_of(definition, layout), *_calls(_service_calls(definition, layout), domain))
    return BrokerUser(definition.field_manager, publish, _inbox(definition.field_manager))


def reader(layout: Layout, domain: str = "") -> BrokerUser:
    """The user of the command line, which reads the log and writes nothing."""
    return BrokerUser("aim", _calls(_reader_calls(layout), domain), _inbox("aim"))


def _inbox(name: str) -> tuple[str, ...]:
    return (f"{inbox_prefix(name)}.>",)


def _subjects_of(definition: ServiceDefinition, layout: Layout) -> Iterator[str]:
    own = encode_token(definition.name)
    for part in definition.publishes:
        yield layout.state_filter(part.name)
        yield layout.log_filter(part.name)
        yield layout.sync(part.name)
    # The number of its shards may change without a change of its user.
    for facts in (facts_part_name(index) for index in range(len(definition.leases))):
        yield layout.state_filter(facts, definition.name)
        yield layout.log_filter(facts, definition.name)
        yield layout.sync(facts, definition.name)
    yield f"{layout.root}.decision.{own}.>"


def _service_calls(definition: ServiceDefinition, layout: Layout) -> Iterator[tuple[str, tuple[str, ...]]]:
    # A user that may update a stream may forge and delete all of its messages: republish, sources, max_age (FW-766).
    governs = _GOVERNS if definition.governs_streams else ()
    # Tombstones leave the present by their sequence; nothing ever leaves the past that way.
    yield layout.state_stream, (*governs, *_LOOKS, *_READS, _SWEEPS)
    yield layout.history_stream, (*governs, *_LOOKS, *_READS)
    # The service whose settings limit the streams also counts what fills them.
    yield layout.decisions_stream, (*governs, *_LOOKS, *(_COUNTS if definition.governs_streams else ()))


def _reader_calls(layout: Layout) -> Iterator[tuple[str, tuple[str, ...]]]:
    # `aim bus` tells how far each consumer is behind.
    yield layout.state_stream, (*_LOOKS, *_READS, _CONSUMERS)
    yield layout.history_stream, (*_LOOKS, *_READS, _CONSUMERS, _MANY_AT_ONCE)
    yield layout.decisions_stream, (*_LOOKS, *_READS, _CONSUMERS)


def _calls(wanted: Iterable[tuple[str, tuple[str, ...]]], domain: str) -> tuple[str, ...]:
    api = f"$JS.{domain}.API" if domain else "$JS.API"
    return tuple(f"{api}.{call.format(stream)}" for stream, calls in wanted for call in calls)


def account(name: str, users: Iterable[tuple[BrokerUser, str]]) -> JsonObject:
    """The block `accounts` for a broker that several installations share: streams and users of one are its own."""
    return {name: {"jetstream": "enabled", **authorization(users)}}


def authorization(users: Iterable[tuple[BrokerUser, str]]) -> JsonObject:
    """The block of that name in the configuration of nats-server: users by their public NKeys, and no others."""
    return {"users": [{"nkey": public, "permissions": user.permissions} for user, public in users]}
