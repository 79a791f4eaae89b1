"""Facts: results of effects, published like changes so that a replay sees what the decision saw.

A fact belongs to one owner object and is ordered by its sequence in the state stream.
"""

import hashlib
from datetime import datetime
from functools import lru_cache
from typing import Final, TypeVar

from pydantic import BaseModel, Field

from controller_runtime.api.base import ApiModel
from controller_runtime.api.meta import Kind, Resource
from controller_runtime.errors import Category, ClassifiedError
from controller_runtime.json import JsonObject
from controller_runtime.log.cache.view import Lookup, View
from controller_runtime.log.wire.part import Index, Key, Part
from controller_runtime.log.wire.subjects import facts_part_name
from controller_runtime.names import DOMAIN

M = TypeVar("M", bound=BaseModel)


class FactOwner(ApiModel):
    """The object a fact was gathered for; the fact is removed with it."""

    part: str
    namespace: str = ""
    name: str
    uid: str


class FactError(ApiModel):
    """Why an effect failed, as a value."""

    category: Category
    reason: str
    message: str


class Fact(Resource):
    """The result of one effect.

    Attributes:
        effect: kind of the effect, for example ``image-inspection``.
        about: what the effect was about; with ``effect`` it identifies the fact.
        observed_at: when the effect ended.
        attempts: consecutive failures up to this one; 0 after a success.
        outcome: the result; ``None`` after a failure.
    """

    effect: str
    about: str
    owner: FactOwner
    observed_at: datetime
    attempts: int = 0
    outcome: JsonObject | None = None
    failure: FactError | None = Field(default=None)

    @property
    def error(self) -> ClassifiedError | None:
        """The failure as an error value."""
        if self.failure is None:
            return None
        return ClassifiedError(self.failure.category, self.failure.reason, self.failure.message)

    def read(self, model: type[M]) -> M | None:
        """The outcome, decoded; ``None`` after a failure."""
        return None if self.outcome is None else model.model_validate(self.outcome)


FACT: Final = Kind(f"facts.{DOMAIN}", "v1", "Fact", "facts", model=Fact)
"""Facts look like objects to the cache, but exist on the bus only; the API server knows no such kind."""

FACTS: Final = Part("facts", FACT)
"""Facts of every service; a service's cache holds only its own (namespace = the service's name)."""


@lru_cache
def facts_of_shard(shard: int) -> Part[Fact]:
    """The facts that the leader of a shard gathers and publishes; those of shard 0 are `FACTS` (FW-894)."""
    return Part(facts_part_name(shard), FACT) if shard else FACTS


_NAME_DIGITS: Final = 24


def fact_name(effect: str, key: str) -> str:
    """Name of a fact on the bus: effect and a hash, because keys may hold any character."""
    return f"{effect}-{hashlib.sha256(key.encode()).hexdigest()[:_NAME_DIGITS]}"


def fact_key(service: str, effect: str, key: str) -> Key:
    """Key of a fact in its part: facts of a service share the service's name as namespace."""
    return Key(service, fact_name(effect, key))


def get_fact(view: View, service: str, effect: str, key: str) -> Lookup[Fact]:
    """Look up the fact of an effect; nothing is found until the effect ended once."""
    return view.get(facts_of_shard(view.shard), service, fact_name(effect, key))


def facts_by_owner(part: Part[Fact]) -> Index[Fact]:
    """Facts by UID of the object they were gathered for."""
    return Index(part, "fact-owner", lambda fact: [fact.owner.uid])
