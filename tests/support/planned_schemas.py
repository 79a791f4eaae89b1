"""Judges planned writes by the schemas of the API, offline: the same checks that an API server makes, strictly."""

from functools import cache
from hashlib import sha256
from typing import Final

from support.controlplane import definitions
from support.planned_writes import PlannedWrite, Verb

from aim_domain.kinds import kind_of
from controller_runtime import JsonObject, dumps, loads
from embedded_apiserver.objects.builtin import schema_for
from embedded_apiserver.objects.cel import CelRules
from embedded_apiserver.objects.errors import FieldError
from embedded_apiserver.objects.schema import Schema


def refusals(body: JsonObject) -> list[FieldError]:
    """What an API server would say against an object; puts in the defaults and drops what is unknown."""
    schema, rules = _checks(body["apiVersion"], body["kind"])
    schema.prune(body)
    schema.default(body)
    return schema.validate(body) or (rules.validate(body, None) if rules is not None else [])


def problems(write: PlannedWrite) -> list[str]:
    """Why an API server would refuse the write; empty if it would not."""
    body = loads(dumps(write.body))
    unknown = [f'unknown field "{path}"' for path in _checks(body["apiVersion"], body["kind"])[0].prune(body)]
    errors = refusals(body)
    # Of a status write only that is ours: what the test put into the spec is no matter of the plan.
    ours = [str(error) for error in errors if write.verb is not Verb.STATUS or error.path.startswith("status")]
    return [*unknown, *ours]


_ACCEPTED: Final[set[bytes]] = set()
"""Digests of the writes that were found in order; most passes plan what the one before did."""


def assert_accepted(write: PlannedWrite) -> None:
    """Fail the test whose plan an API server would refuse."""
    digest = sha256(write.encode()).digest()
    if digest in _ACCEPTED:
        return
    found = problems(write)
    body = write.body
    assert not found, f"the plan's {write.verb} of {body['kind']} {body['metadata']['name']} would be refused: {found}"
    _ACCEPTED.add(digest)


@cache
def _checks(api_version: str, kind: str) -> tuple[Schema, CelRules | None]:
    custom = _custom().get((api_version, kind))
    if custom is not None:
        return Schema.compile(custom), CelRules.compile(custom)
    known = kind_of(api_version, kind)
    assert known is not None, f"the platform does not know {api_version} {kind}"
    return schema_for(known.group, known.version, known.kind), None


@cache
def _custom() -> dict[tuple[str, str], JsonObject]:
    """Schemas of custom kinds by API version and kind."""
    return {
        (f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"]): version["schema"][
            "openAPIV3Schema"
        ]
        for crd in definitions()
        for version in crd["spec"]["versions"]
    }
