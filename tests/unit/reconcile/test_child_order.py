"""In which order children are brought into being."""

from typing import Any

import pytest

from aim_domain import kinds
from controller_runtime import Child, Part, WriteMode
from controller_runtime.reconcile.child import children_in_order

CONFIG_MAPS = Part("configmaps", kinds.CONFIG_MAP)
CLAIMS = Part("claims", kinds.PERSISTENT_VOLUME_CLAIM)
JOBS = Part("jobs", kinds.JOB)
MODELS = Part("aimclustermodels", kinds.AIM_CLUSTER_MODEL)


def child(part: Part[Any], name: str, mode: WriteMode = WriteMode.APPLY, namespace: str = "ns") -> Child:
    return Child(part, {"metadata": {"namespace": namespace, "name": name}}, mode=mode)


def names(*children: Child) -> list[str]:
    return [f"{one.part.kind.kind}/{one.name}" for one in children_in_order(children)]


@pytest.mark.spec("FW-204", "DI-056")
def test_applied_children_go_by_kind_namespace_and_name() -> None:
    assert names(
        child(JOBS, "a"), child(CONFIG_MAPS, "z"), child(CONFIG_MAPS, "y"), child(CONFIG_MAPS, "zz", namespace="before")
    ) == ["ConfigMap/zz", "ConfigMap/y", "ConfigMap/z", "Job/a"]


@pytest.mark.spec("MS-236")
def test_created_children_of_a_kind_keep_the_order_of_the_plan() -> None:
    created = [child(MODELS, name, WriteMode.CREATE, "") for name in ("z", "a", "m")]
    assert names(*created) == ["AIMClusterModel/z", "AIMClusterModel/a", "AIMClusterModel/m"]


@pytest.mark.spec("FW-204", "DI-250")
def test_what_others_refer_to_comes_first_however_it_is_made() -> None:
    assert names(child(JOBS, "a", WriteMode.CREATE), child(CLAIMS, "b", WriteMode.CREATE), child(CONFIG_MAPS, "c")) == [
        "ConfigMap/c",
        "PersistentVolumeClaim/b",
        "Job/a",
    ]
