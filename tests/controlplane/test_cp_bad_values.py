"""Values at and beyond the limits of the platform's own kinds: refused alike by every API server.

What is expected comes from the schemas and rules in process, by which unit tests choose what reconcilers have to bear.
"""

import asyncio
from collections.abc import Iterator

import pytest
from support.bad_values import Field, fields_of
from support.planned_schemas import refusals
from support.suite import SuiteApi
from support.whole_platform import variants

from aim_domain.kinds import kind_of
from controller_runtime import JsonObject, dumps, loads

STRIDE, STRIDE_OF_TEXTS = 7, 61
"""Of the values of a field each seventh, of the next field those after them; of texts without a pattern, which are
most and of which the schema says least, fewer. Unit tests bear all of them."""
IN_FLIGHT = 8
OF_SCALE = ("non-negative", "less than or equal to 2147483647")
LARGEST = 1 << 20
"""Bytes of a body; what is beyond is refused for its size by whoever comes first."""


def tries(name: str) -> Iterator[tuple[Field, object, JsonObject]]:
    """Field, value and the object with it, which is not of this cache yet."""
    base = variants()[name]
    fresh = {member: base[member] for member in ("apiVersion", "kind", "spec")}
    for number, field in enumerate(fields_of(base["kind"])):
        stride = STRIDE if field.parsed else STRIDE_OF_TEXTS
        for value in field.values[number % stride :: stride]:
            body = field.put({**fresh, "metadata": {"name": "bad-values"}}, value)
            if len(dumps(body)) < LARGEST:
                yield field, value, body


@pytest.mark.spec("FW-478", "CC-014")
@pytest.mark.parametrize("name", tuple(variants()))
async def test_what_the_schemas_refuse_and_nothing_else(api: SuiteApi, name: str) -> None:
    kind = kind_of(variants()[name]["apiVersion"], variants()[name]["kind"])
    assert kind is not None
    where = "/namespaces/$ns" if kind.namespaced else ""
    path = f"/apis/{kind.group}/{kind.version}{where}/{kind.plural}"
    limit, different = asyncio.Semaphore(IN_FLIGHT), []

    async def attempt(field: Field, value: object, body: JsonObject) -> None:
        async with limit:
            reply = await api.post(path, body, dryRun="All")
        refused = refusals(loads(dumps(body)))
        # A real API server judges the field that the scale subresource names, beside the schema.
        if str(field) == "spec.replicas" and reply.status == 422 and any(one in reply.message for one in OF_SCALE):
            return
        if (reply.status == 201) is bool(refused):
            different.append((str(field), repr(value)[:60], reply.status, reply.message[:200], refused[:1]))

    async with asyncio.TaskGroup() as group:
        for field, value, body in tries(name):
            group.create_task(attempt(field, value, body))
    assert not different, f"{len(different)}: {different[:20]}"
