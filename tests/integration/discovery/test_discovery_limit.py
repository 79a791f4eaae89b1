"""The limit on running discovery Jobs, as the API server sees it: in a burst, with failures, when leaders change."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.cluster import NAMESPACE, path, simulated_cluster
from support.controlplane import RawApi
from support.discovery_service import (
    MODELS,
    TEMPLATES,
    all_ready,
    condition,
    counted_jobs,
    has_status,
    model,
    running_discovery,
    template,
)

from aim_local.actors import ActorSettings
from embedded_apiserver import ControlPlane

SWITCHED_OFF = {"extractMetadata": False, "createServiceTemplates": False}
DUMMY = "amdenterpriseai/aim-dummy:0.1.0"
FAILING = "badcases/noisy-output:1.0.0"
NAMES = [f"t{number:02}" for number in range(30)]


@pytest.fixture
async def slow_cluster(controlplane: ControlPlane, api: RawApi, tmp_path: Path) -> AsyncIterator[None]:
    """Actors that take a fifth of a second for each step, so that Jobs overlap."""
    await api.created("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    async with simulated_cluster(controlplane, tmp_path, ActorSettings(tmp_path / "data", delay=0.2)):
        yield


async def burst(api: RawApi) -> None:
    await api.created(path(MODELS), model(DUMMY, discovery=SWITCHED_OFF))
    for name in NAMES:
        await api.created(path(TEMPLATES), template(name, env=[{"name": "N", "value": name}]))


@pytest.mark.usefixtures("slow_cluster")
@pytest.mark.spec("AC-53", "DI-309", "DI-311", "DI-312", "DI-315", "DI-317")
async def test_thirty_templates_never_run_more_than_ten_jobs_also_when_leaders_change(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path
) -> None:
    async with (
        counted_jobs(controlplane, tmp_path) as count,
        running_discovery(controlplane, tmp_path, replicas=2) as replicas,
    ):
        await burst(api)
        await api.until(path(TEMPLATES, NAMES[0]), has_status("Ready"))
        leases = "/apis/coordination.k8s.io/v1/namespaces/" + NAMESPACE + "/leases/aim-discovery"
        holder = (await api.get(leases)).body["spec"]["holderIdentity"]
        await replicas.stop(int(holder.removeprefix("discovery-").partition("_")[0]))
        await all_ready(api, NAMES)
        assert (await api.get(leases)).body["spec"]["holderIdentity"] != holder

    assert 3 <= count.most <= 10, "Jobs overlap, and never more than the limit of them"
    assert count.created == len(NAMES)


@pytest.mark.usefixtures("slow_cluster")
@pytest.mark.spec("AC-54", "DI-294", "DI-319")
async def test_templates_that_fail_do_not_starve_one_that_does_not(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path
) -> None:
    failing = NAMES[:15]
    async with running_discovery(controlplane, tmp_path):
        await api.created(path(MODELS), model(FAILING, "bad", discovery=SWITCHED_OFF))
        await api.created(path(MODELS), model(DUMMY, discovery=SWITCHED_OFF))
        for name in failing:
            await api.created(path(TEMPLATES), template(name, "bad", env=[{"name": "N", "value": name}]))
        for name in failing[:5]:
            await api.until(path(TEMPLATES, name), has_status("Failed"))
        await api.created(path(TEMPLATES), template("healthy"))
        await all_ready(api, ["healthy"])

        for name in failing[:5]:
            found = (await api.get(path(TEMPLATES, name))).body
            assert found["status"]["discovery"]["attempts"] >= 1
            assert condition(found, "Discovered") == ("False", "DiscoveryFailed")
