"""The pods of the chart: what they are made of, and what starts them anew."""

import asyncio
import re
import shutil
from pathlib import Path
from typing import Final

import pytest
import yaml
from support.helm import CHARTS, ENGINE, NAMESPACE, OFFLINE, Finished, broker_config, helm, of_kind, rendered, run

from aim_local.assets import Program
from aim_local.realcluster import RealCluster, User
from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

WORKLOADS: Final = ("Deployment", "StatefulSet")
IMAGES: Final = ("--set-string", "manager.image.tag=1,downloader.image.tag=1")
"""Given, so that the versions of images do not follow that of the chart."""


def templates(done: Finished) -> dict[str, JsonObject]:
    """The template of each workload's pods, by name."""
    found = {name: one for kind in WORKLOADS for name, one in of_kind(done, kind).items()}
    return {name: one["spec"]["template"] for name, one in found.items()}


async def later_version(folder: Path) -> str:
    """The chart as a later release has it, of which nothing else changed."""
    chart = folder / "aim-engine"
    await asyncio.to_thread(shutil.copytree, ENGINE, chart)
    about = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    text = yaml.safe_dump(about | {"version": "9.9.9", "appVersion": "9.9.9"})
    (chart / "Chart.yaml").write_text(text, encoding="utf-8")
    return str(chart)


@pytest.mark.spec("FW-700")
async def test_another_version_of_the_chart_starts_no_pod_anew(tmp_path: Path) -> None:
    first, second = [
        templates(await helm("template", "aim-engine", chart, "-n", NAMESPACE, *OFFLINE, *IMAGES))
        for chart in (ENGINE, await later_version(tmp_path))
    ]
    assert len(first) == 6
    assert first == second


@pytest.mark.spec("FW-546")
async def test_a_check_that_hangs_is_ended_and_one_that_failed_goes_after_a_day(tmp_path: Path) -> None:
    done = await rendered(tmp_path, {"check": {"seconds": 30}})
    job = of_kind(done, "Job")["aim-engine-check"]
    assert job["spec"]["activeDeadlineSeconds"] == 210
    assert job["spec"]["ttlSecondsAfterFinished"] == 86400
    assert "hook-failed" not in job["metadata"]["annotations"]["helm.sh/hook-delete-policy"]


OPERATIONS: Final = CHARTS.parents[1] / "docs" / "operations" / "remove.md"
DELETED: Final = re.compile(r"^kubectl .*delete ([a-z,]+) aim-engine-check\b", re.MULTILINE)


@pytest.mark.spec("FW-546")
async def test_the_documentation_removes_all_that_a_failed_check_leaves(tmp_path: Path) -> None:
    done = await rendered(tmp_path)
    left = {one["kind"].lower() for one in done.objects if one["metadata"]["name"] == "aim-engine-check"}
    kinds = ",".join(DELETED.findall(OPERATIONS.read_text(encoding="utf-8")))
    assert set(kinds.split(",")) == left


OF_ALL, OF_TEST = (
    {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "Exists"}]}]
        }
    }
    for key in ("control-plane", "tests")
)
TOLERATED: Final = [{"key": "gpu", "operator": "Exists"}]
EVERYTHING: Final[JsonObject] = {
    "global": {"imageRegistry": "mirror.example:5000", "imagePullSecrets": [{"name": "all"}]},
    "commonLabels": {"team": "serving"},
    "manager": {
        "replicas": 2,
        "imagePullSecrets": [{"name": "own"}],
        "envFrom": [{"configMapRef": {"name": "proxy"}}],
        "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ca"}],
        "strategy": {"type": "Recreate"},
        "revisionHistoryLimit": 3,
        "deploymentAnnotations": {"note": "x"},
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["registry"]}],
        "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
        "tolerations": TOLERATED,
        "affinity": {"nodeAffinity": OF_ALL},
        "podDisruptionBudget": {"minAvailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
    },
    "prometheus": {"enabled": True},
    "check": {"resources": {"limits": {"memory": "1Gi"}}, "priorityClassName": "low", "nodeSelector": {"a": "b"}},
    "test": {"imagePullSecrets": [{"name": "test"}], "affinity": {"nodeAffinity": OF_TEST}},
    "nats": {
        "replicas": 3,
        "env": [{"name": "GOMAXPROCS", "value": "2"}],
        "podLabels": {"sidecar": "none"},
        "podAnnotations": {"note": "z"},
        "securityContext": {"readOnlyRootFilesystem": True, "privileged": False},
        "podSecurityContext": {"runAsNonRoot": True},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
        "config": {"max_connections": 100, "jetstream": {"max_file_store": 1}},
        "exporter": {"enabled": True},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"},
    },
}


@pytest.mark.spec("FW-704")
async def test_a_service_has_all_that_values_say_of_its_pods(tmp_path: Path) -> None:
    done = await rendered(tmp_path, EVERYTHING)
    deployment = of_kind(done, "Deployment")["aim-engine-serving"]
    said = EVERYTHING["manager"]
    assert deployment["metadata"]["annotations"] == {"note": "x"}
    assert deployment["metadata"]["labels"]["team"] == "serving"
    assert deployment["spec"]["strategy"] == said["strategy"]
    assert deployment["spec"]["revisionHistoryLimit"] == 3
    pod = deployment["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": "all"}, {"name": "own"}]
    assert (pod["hostAliases"], pod["dnsConfig"]) == (said["hostAliases"], said["dnsConfig"])
    assert said["extraVolumes"][0] in pod["volumes"]
    [only] = pod["containers"]
    assert only["envFrom"] == said["envFrom"]
    assert said["extraVolumeMounts"][0] in only["volumeMounts"]
    assert only["image"].startswith("mirror.example:5000/amdenterpriseai/aim-engine-serving:")
    budget = of_kind(done, "PodDisruptionBudget")["aim-engine-serving"]["spec"]
    assert (budget["minAvailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")
    assert "maxUnavailable" not in budget


@pytest.mark.spec("FW-704")
async def test_the_check_and_the_test_have_their_own_resources_and_go_where_the_manager_goes(tmp_path: Path) -> None:
    done = await rendered(tmp_path, EVERYTHING)
    check = of_kind(done, "Job")["aim-engine-check"]["spec"]["template"]["spec"]
    test = of_kind(done, "Pod")["aim-engine-test"]["spec"]
    assert check["containers"][0]["resources"]["limits"] == {"cpu": "500m", "memory": "1Gi"}
    assert test["containers"][0]["resources"]["limits"] == {"cpu": "500m", "memory": "512Mi"}
    assert (check["priorityClassName"], check["nodeSelector"]) == ("low", {"a": "b"})
    assert check["tolerations"] == test["tolerations"] == TOLERATED
    assert (check["affinity"], test["affinity"]) == ({"nodeAffinity": OF_ALL}, {"nodeAffinity": OF_TEST})
    assert check["imagePullSecrets"] == [{"name": "all"}, {"name": "own"}]
    assert test["imagePullSecrets"] == [{"name": "all"}, {"name": "test"}]


@pytest.mark.spec("FW-704")
async def test_the_broker_has_all_that_values_say_of_it(tmp_path: Path) -> None:
    done = await rendered(tmp_path, EVERYTHING)
    config, said = broker_config(done), EVERYTHING["nats"]
    assert config["max_connections"] == 100
    assert (config["jetstream"]["store_dir"], config["jetstream"]["max_file_store"]) == ("/data", 1)
    spec = of_kind(done, "StatefulSet")["aim-engine-nats"]["spec"]
    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Delete", "whenScaled": "Retain"}
    metadata, pod = spec["template"]["metadata"], spec["template"]["spec"]
    assert (metadata["labels"]["sidecar"], metadata["annotations"]["note"]) == ("none", "z")
    assert pod["securityContext"] == said["podSecurityContext"]
    assert pod["topologySpreadConstraints"] == said["topologySpreadConstraints"]
    server, exporter = pod["containers"]
    env = {one["name"]: one.get("value") for one in server["env"]}
    assert (env["GOMEMLIMIT"], env["GOMAXPROCS"]) == (str(2 * 1024**3 * 9 // 10), "2")
    assert server["securityContext"] == exporter["securityContext"] == said["securityContext"]
    monitor = of_kind(done, "PodMonitor")["aim-engine-nats"]["spec"]
    assert monitor["podMetricsEndpoints"] == [{"port": "metrics", "interval": "30s"}]
    ingress = of_kind(done, "NetworkPolicy")["aim-engine-nats"]["spec"]["ingress"]
    assert {"protocol": "TCP", "port": "metrics"} in [port for rule in ingress for port in rule["ports"]]


@pytest.mark.spec("FW-704")
async def test_the_api_server_knows_every_field_that_values_lead_to(real_cluster: RealCluster, tmp_path: Path) -> None:
    # The kinds of the Prometheus operator are not there.
    done = await rendered(tmp_path, {**EVERYTHING, "prometheus": {"enabled": False}})
    assert done.status == 0, done.errors
    config = str(real_cluster.kubeconfig_for(User.KUBECTL))
    arguments = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "--force-conflicts", "-f", "-")
    tried = await run(Program.KUBECTL, "--kubeconfig", config, *arguments, stdin=yaml.safe_dump_all(done.objects))
    assert tried.status == 0, tried.errors
