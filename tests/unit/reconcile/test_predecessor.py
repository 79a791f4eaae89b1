"""Whose child it is that was found: the predecessor's of this name, or somebody else's."""

from typing import Any

import pytest

from aim_domain.kinds import AIM_SERVICE
from controller_runtime import Resource, is_left_by_predecessor

OWNER = Resource.model_validate({"metadata": {"name": "chat", "namespace": "team", "uid": "new"}})
EARLIER = {
    "apiVersion": "aim.eai.amd.com/v1alpha1",
    "kind": "AIMService",
    "name": "chat",
    "uid": "old",
    "controller": True,
}


def left(*owners: dict[str, Any]) -> bool:
    child = {"metadata": {"name": "c", "namespace": "team", "ownerReferences": list(owners)}}
    return is_left_by_predecessor(Resource.model_validate(child), OWNER, AIM_SERVICE)


@pytest.mark.spec("FW-497", "MS-177", "SV-146", "RT-184")
@pytest.mark.parametrize("version", ["v1alpha1", "v1"])
def test_an_earlier_owner_of_this_name_controls_it_in_whatever_version_it_was_made(version: str) -> None:
    assert left({**EARLIER, "apiVersion": f"aim.eai.amd.com/{version}"})
    assert left({**EARLIER, "kind": "ConfigMap", "apiVersion": "v1", "controller": False}, EARLIER)


@pytest.mark.spec("FW-497", "MS-177", "SV-146", "RT-184")
@pytest.mark.parametrize(
    "other",
    [
        {"controller": False},
        {"controller": None},
        {"kind": "AIMModel"},
        {"apiVersion": "serving.example.com/v1alpha1"},
        {"apiVersion": "v1alpha1"},
        {"name": "talk"},
        {"uid": "new"},
    ],
    ids=str,
)
def test_any_other_owner_is_no_predecessor(other: dict[str, Any]) -> None:
    assert not left({**EARLIER, **other})
    assert not left()
