"""Ours beside the definitions of the existing Go operator: no field less, nothing refused but what CC-320 names."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from support.crd_tables import schema
from support.go_operator import SPECS, Difference, differences

from aim_domain.kinds import OWN_KINDS

KINDS = {kind.kind: kind for kind in OWN_KINDS if kind.kind in SPECS}
# Kind, path and type; the keyword that admits less there; what of CC-320 wants it.
NAMED = {
    ("* spec *", "required"): "a missing spec",
    ("* Quantity", "maxLength"): "CC-020",
    ("*.env.value *", "maxLength"): "CC-023",
    ("*.pathTemplate *", "maxLength"): "RC-166",
    ("*.labelPropagation.match *", "maxItems"): "RC-165",
    ("*.labelPropagation.match *", "maxLength"): "RC-165",
    ("*.recommendedDeployments *", "maxItems"): "CC-341",
    ("*.message *", "maxLength"): "CC-340",
    ("*.lastFailureReason *", "maxLength"): "CC-340",
    ("AIMService spec *", "rules"): "CEL-16",
    ("AIM*Model spec *", "rules"): "CEL-32",
    ("AIMClusterModelSource spec *", "rules"): "CEL-20",
    ("AIM*ServiceTemplate spec *", "rules"): "CEL-41",
    ("AIMArtifact spec *", "rules"): "CEL-51",
    ("* spec.filters.image *", "minLength"): "the minimum length of filters[].image",
    ("* spec.syncInterval *", "pattern"): "CC-111",
    ("* spec.syncInterval *", "maxLength"): "CC-111",
    ("* spec.*customProfile.envVars *", "rules"): "CC-304",
    ("* spec.*customProfile.envVars *", "maxProperties"): "CC-304",
}


def _found(kind: str) -> list[Difference]:
    return list(differences(schema(KINDS[kind]), kind))


def _names(kind: str, difference: Difference) -> set[tuple[str, str]]:
    path = difference.path.replace("[]", "").replace("{}", "")
    place = f"{kind} {path} {difference.type}"
    return {
        (pattern, keyword)
        for pattern, keyword in NAMED
        if keyword == difference.keyword and fnmatchcase(place, pattern)
    }


@pytest.mark.spec("CC-321")
@pytest.mark.parametrize("kind", SPECS)
def test_no_field_of_the_go_operator_is_missing(kind: str) -> None:
    assert [found.path for found in _found(kind) if found.keyword == "field"] == []


@pytest.mark.spec("CC-320")
@pytest.mark.parametrize("kind", SPECS)
def test_only_what_is_named_is_refused_where_the_go_operator_admits_it(kind: str) -> None:
    assert [found for found in _found(kind) if not _names(kind, found)] == []


@pytest.mark.spec("CC-320")
def test_every_named_exception_exists() -> None:
    assert set().union(*(_names(kind, found) for kind in SPECS for found in _found(kind))) == set(NAMED)
