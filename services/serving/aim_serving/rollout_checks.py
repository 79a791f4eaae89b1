"""What Prometheus says of a new version while it answers a share of the requests (SV-349)."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Final

import aiohttp

from aim_domain import DEFAULT_NAME, AIMService, RolloutCheck, RolloutPhase, RolloutStatus
from aim_domain.naming import inference_service_name
from aim_domain.parts import CLUSTER_RUNTIME_CONFIGS
from aim_serving import SERVICE_NAME
from aim_serving.answers import read_answer
from controller_runtime import (
    ApiModel,
    Category,
    ClassifiedError,
    Clients,
    Effect,
    EffectError,
    EffectType,
    Fact,
    JsonObject,
    View,
    loads,
    quantity,
)
from controller_runtime.texts import shortened

_EVERY: Final = timedelta(seconds=30)
_BEGUN: Final = timedelta(seconds=1)
"""Statuses have whole seconds, so what was read in that of the beginning may be of the step before."""
_SECONDS: Final = 10.0
_AGGREGATE: Final = "aggregate the query, as with sum or max"
"""Whose series an answer lists is up to what engines export."""
_LONGEST_REASON: Final = 300
_PATH: Final = "/api/v1/query"
_ANSWERING: Final = frozenset({RolloutPhase.PROGRESSING, RolloutPhase.PAUSED})


class QueryParams(ApiModel):
    """What is asked, and where."""

    url: str
    query: str


class QueryResult(ApiModel):
    """The largest value of an answer; ``None`` for one without a number."""

    value: float | None = None


class PrometheusReader:
    """Runner of `ROLLOUT_CHECK`."""

    async def __call__(self, params: QueryParams) -> QueryResult:
        """The answer to an instant query.

        Raises:
            EffectError: Prometheus cannot be reached, or refuses the query.
        """
        try:
            timeout = aiohttp.ClientTimeout(total=_SECONDS)
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(f"{params.url.rstrip('/')}{_PATH}", params={"query": params.query}) as reply,
            ):
                body = await read_answer(reply.content.iter_any(), _AGGREGATE)
            return QueryResult(value=_largest(loads(body)))
        except (aiohttp.ClientError, TimeoutError, ValueError, LookupError, TypeError, AttributeError) as error:
            why = shortened(str(error) or type(error).__name__, _LONGEST_REASON)
            what = f"Prometheus at {params.url} has not answered: {why}"
            raise EffectError(ClassifiedError(Category.INFRASTRUCTURE, "CheckNotRead", what)) from error


def _largest(body: JsonObject) -> float | None:
    """The largest number of an instant vector, or a scalar; NaN, as of a rate of nothing, is none.

    Raises:
        ValueError: Prometheus reports an error.
    """
    if body.get("status") != "success":
        raise ValueError(str(body.get("error") or "no success"))
    data = body["data"]
    samples = [data["result"]] if data["resultType"] == "scalar" else [one["value"] for one in data["result"]]
    # JSON, and so a fact, has no infinity.
    numbers = [min(float(sample[1]), sys.float_info.max) for sample in samples]
    return max((one for one in numbers if not math.isnan(one)), default=None)


def _reader(_: Clients) -> PrometheusReader:
    return PrometheusReader()


ROLLOUT_CHECK: Final = EffectType("rollout-check", QueryParams, QueryResult, _reader, 16)
"""A query about a new version."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What the checks come to.

    Attributes:
        exceeded: which check is above its limit; empty if none is.
        unread: which check is not known in this step; empty if all are.
        effects: what is to be read.
    """

    exceeded: str = ""
    unread: str = ""
    effects: tuple[Effect, ...] = ()


def read_checks(view: View, service: AIMService, state: RolloutStatus | None) -> Checked:
    """The checks of the cluster's runtime config, as far as the step has them; nothing where no step is under way."""
    if state is None or state.phase not in _ANSWERING or not state.candidate:
        return Checked()
    found = view.get(CLUSTER_RUNTIME_CONFIGS, None, DEFAULT_NAME)
    if found.error is not None:
        return Checked(unread=f"AIMClusterRuntimeConfig {DEFAULT_NAME}: {found.error.message}")
    rollouts = found.value.spec.rollouts if found.value is not None else None
    if rollouts is None:
        return Checked()
    beside = inference_service_name(state.candidate, service.namespace)
    begun = state.since + _BEGUN if state.since is not None else None
    exceeded, unread, effects = [], [], []
    for check in rollouts.checks:
        query = check.query.replace("$namespace", service.namespace).replace("$inferenceservice", beside)
        key = f"{service.uid}/{state.revision}/{check.name}"
        fact = ROLLOUT_CHECK.look_up(view, SERVICE_NAME, key).value
        current = fact if fact is not None and (begun is None or fact.observed_at >= begun) else None
        effects.append(
            ROLLOUT_CHECK.ask(
                key,
                QueryParams(url=rollouts.prometheus_url, query=query),
                begun if current is None else current.observed_at + _EVERY,
            )
        )
        above, missing = _verdict(check, current)
        exceeded += [above] if above else []
        unread += [missing] if missing else []
    return Checked(_first(exceeded), _first(unread), tuple(effects))


def _verdict(check: RolloutCheck, fact: Fact | None) -> tuple[str, str]:
    """Why the version must not go on, or why that is not known."""
    if fact is None:
        return "", f"check {check.name} has no answer in this step yet"
    if fact.failure is not None:
        return "", f"check {check.name}: {fact.failure.message}"
    result = ROLLOUT_CHECK.result_of(fact)
    limit = quantity.parse_or_none(check.max)
    if limit is None:
        return "", f"check {check.name}: max is {check.max!r}, which is no number"
    if result is None or result.value is None or Decimal(str(result.value)) <= limit.value:
        return "", ""
    return f"check {check.name} is {result.value:g}, above {check.max}", ""


def _first(found: Sequence[str]) -> str:
    return found[0] if found else ""
