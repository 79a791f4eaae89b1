"""The chart, rendered and linted by the real helm, and accepted by a real API server."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from support.controlplane import RawApi
from support.helm import (
    CHARTS,
    ENGINE,
    KUBERNETES,
    NAMESPACE,
    OFFLINE,
    Finished,
    broker_config,
    helm,
    of_kind,
    rendered,
    run,
)

from aim_cli.cluster.asking import reading
from aim_cli.installation import doctor
from aim_cli.installation.doctor import Mark
from aim_domain.kinds import OWN_KINDS
from aim_domain.services import SERVICES
from aim_local.assets import Program, find_toolset
from aim_local.nats import NatsServer
from aim_local.realcluster import RealCluster, User
from aim_packaging.keys import new_key
from aim_packaging.manifests import manifests
from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

USERS: Final = ("aim", *(f"aim-{one}" for one in SERVICES))
HUB: Final = {"namespace": "team", "names": ["hub"]}
SPREAD: Final = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
FULL: Final[JsonObject] = {
    "manager": {"replicas": 2, "env": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}]},
    "services": {"serving": {"resources": {"limits": {"memory": "8Gi"}}}, "routing": {"replicas": 0}},
    "registries": {"docker.io": {"mirrors": [{"url": "https://mirror.example"}]}},
    "rbacHelpers": {"aggregate": True},
    "nats": {
        "replicas": 3,
        "root": "team-a",
        "tls": {"secretName": "nats-tls"},
        "auth": {"enabled": True, "publicKeys": {user: new_key().public for user in USERS}},
    },
    "downloader": {"serviceAccount": "aim-downloader"},
    "clusterRuntimeConfig": {"enabled": True, "spec": {"routing": {"enabled": False}}},
    "clusterModelSource": {"enabled": True},
    "extraObjects": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "{{ .Release.Namespace }}"}}
    ],
}


def container(deployment: JsonObject) -> JsonObject:
    [only] = deployment["spec"]["template"]["spec"]["containers"]
    found: JsonObject = only
    return found


async def applied(cluster: RealCluster, objects: list[JsonObject], *flags: str) -> Finished:
    """What kubectl says to objects that are only tried."""
    config = str(cluster.kubeconfig_for(User.KUBECTL))
    arguments = ("apply", "--server-side", "--dry-run=server", "--validate=strict", *flags, "-f", "-")
    return await run(Program.KUBECTL, "--kubeconfig", config, *arguments, stdin=yaml.safe_dump_all(objects))


async def test_helm_finds_no_fault() -> None:
    done = await helm("lint", "--strict", ENGINE, *KUBERNETES)
    assert done.status == 0, done.output


@pytest.mark.spec("FW-323", "FW-324", "FW-320")
async def test_each_service_has_its_deployment_its_account_and_the_probes_of_the_specification(tmp_path: Path) -> None:
    done = await rendered(tmp_path)
    found = of_kind(done, "Deployment")
    assert set(found) == {f"aim-engine-{one}" for one in SERVICES}
    for name, deployment in found.items():
        pod = deployment["spec"]["template"]["spec"]
        assert pod["serviceAccountName"] == name
        assert pod["terminationGracePeriodSeconds"] == 10
        only = container(deployment)
        assert only["livenessProbe"] == {
            "httpGet": {"path": "/healthz", "port": "probes"},
            "initialDelaySeconds": 15,
            "periodSeconds": 20,
            "timeoutSeconds": 1,
            "failureThreshold": 3,
        }
        startup = only["startupProbe"]
        assert startup["httpGet"] == only["livenessProbe"]["httpGet"]
        assert startup["periodSeconds"] * startup["failureThreshold"] == 180
        readiness = only["readinessProbe"]
        assert (readiness["initialDelaySeconds"], readiness["periodSeconds"]) == (5, 10)
        assert only["args"] == ["--leader-elect"]
        assert deployment["spec"]["replicas"] == 1
    assert not of_kind(done, "PodDisruptionBudget"), "of one replica, a budget would only hold up drains"


@pytest.mark.spec("FW-886")
async def test_former_names_of_values_count_for_one_release(tmp_path: Path, real_cluster: RealCluster) -> None:
    former: JsonObject = {
        "metrics": {"enable": False},
        "nats": {"exporter": {"enable": True}},
        "console": {"enable": True},
        "manager": {"replicas": 2},
        "services": {"serving": {"podDisruptionBudget": {"enable": False}}},
    }
    text = json.dumps(former).replace('"enable"', '"enabled"')
    before, after = await rendered(tmp_path, former), await rendered(tmp_path, json.loads(text))
    assert (before.status, before.output) == (0, after.output)
    assert "aim-engine-serving" not in of_kind(after, "PodDisruptionBudget")
    both = await rendered(tmp_path, {"console": {"enable": False, "enabled": True}})
    assert (both.status, "console.enable and console.enabled differ; remove console.enable" in both.errors) == (1, True)
    assert "aim-engine-console" in of_kind(before, "Deployment")
    config = ("--kubeconfig", str(real_cluster.kubeconfig_for(User.KUBECTL)))
    notes = [
        await helm(
            "install",
            "x",
            ENGINE,
            "--dry-run=server",
            "--take-ownership",
            *config,
            "--set",
            f"crd.enabled=false,{given}",
        )
        for given in ("console.enable=true", "console.enabled=true")
    ]
    assert [one.errors for one in notes if "is installed in default" not in one.output] == []
    assert ["console.enable is deprecated" in one.output for one in notes] == [True, False]


@pytest.mark.spec("FW-886")
async def test_a_probe_and_a_budget_can_be_taken_away(tmp_path: Path) -> None:
    done = await rendered(tmp_path, {"manager": {"replicas": 2, "startupProbe": None, "podDisruptionBudget": None}})
    assert not of_kind(done, "PodDisruptionBudget")
    for deployment in of_kind(done, "Deployment").values():
        assert {one for one in container(deployment) if one.endswith("Probe")} == {"livenessProbe", "readinessProbe"}


@pytest.mark.spec("FW-886", "FW-323")
async def test_names_begin_with_what_the_values_say(tmp_path: Path) -> None:
    switched: JsonObject = {
        "fullnameOverride": "llm", "console": {"enabled": True}, "certManager": {"enabled": True},
        "prometheus": {"enabled": True}, "dashboards": {"enabled": True}, "admissionPolicy": {"enabled": True},
    }  # fmt: skip
    done = await rendered(tmp_path, switched)
    left = {line.strip() for line in done.output.splitlines() if "aim-engine-" in line}
    # Services look for this role by its name; the accounts of downloads have a value of their own.
    known = (
        "name: aim-engine-artifact-status-updater",
        "- aim-engine-artifact-status-updater",
        "value: aim-engine-downloader",
        "helm.sh/chart: aim-engine-",
    )
    assert [
        one for one in left if not one.startswith(known) and "docker.io/amdenterpriseai/aim-engine-" not in one
    ] == []
    assert "aim-engine" not in {name for kind in ("PrometheusRule", "Deployment") for name in of_kind(done, kind)}
    assert {f"llm-{one}" for one in (*SERVICES, "console")} == of_kind(done, "Deployment").keys()


@pytest.mark.spec("FW-886")
async def test_accounts_logs_probes_and_containers_are_as_the_values_say(tmp_path: Path) -> None:
    beside = {"name": "proxy", "image": "registry.example.com/proxy:1"}
    values: JsonObject = {
        "serviceAccount": {"create": False, "name": "ours"},
        "manager": {"logLevel": "debug", "extraContainers": [beside], "livenessProbe": {"failureThreshold": 9}},
        "services": {"routing": {"logFormat": "console", "env": [{"name": "AIM_LOG_LEVEL", "value": "error"}]}},
        "admissionPolicy": {"enabled": True},
    }
    done = await rendered(tmp_path, values)
    assert not {f"ours-{one}" for one in SERVICES} & of_kind(done, "ServiceAccount").keys()
    for name in SERVICES:
        pod = of_kind(done, "Deployment")[f"aim-engine-{name}"]["spec"]["template"]["spec"]
        assert (pod["serviceAccountName"], pod["containers"][1]) == (f"ours-{name}", beside)
        own = pod["containers"][0]
        variables = {one["name"]: one.get("value") for one in own["env"]}
        assert len(variables) == len(own["env"]), "each once"
        logs = ("error", "console") if name == "routing" else ("debug", "json")
        assert (variables["AIM_LOG_LEVEL"], variables["AIM_LOG_FORMAT"]) == logs
        assert (own["livenessProbe"]["failureThreshold"], own["livenessProbe"]["periodSeconds"]) == (9, 20)
        bound = of_kind(done, "ClusterRoleBinding")[f"aim-engine-{name}"]
        assert [one["name"] for one in bound["subjects"]] == [f"ours-{name}"]
        assert f":ours-{name}" in json.dumps(of_kind(done, "ValidatingAdmissionPolicy"))


@pytest.mark.spec("FW-326")
async def test_a_service_overrides_what_holds_for_all_even_with_zero(tmp_path: Path) -> None:
    found = of_kind(await rendered(tmp_path, FULL), "Deployment")
    assert {name: one["spec"]["replicas"] for name, one in found.items()} == {
        **{f"aim-engine-{one}": 2 for one in SERVICES},
        "aim-engine-routing": 0,
    }
    serving = container(found["aim-engine-serving"])["resources"]
    assert serving["limits"] == {"cpu": "500m", "memory": "8Gi"}
    env = {one["name"]: one.get("value") for one in container(found["aim-engine-discovery"])["env"]}
    assert env["HTTPS_PROXY"] == "http://proxy:3128"
    assert (env["AIM_NATS_ROOT"], env["AIM_NATS_REPLICAS"]) == ("team-a", "3")
    assert env["AIM_NATS_URL"] == "tls://aim-engine-nats.aim-system.svc:4222"


@pytest.mark.spec("FW-301", "FW-404")
async def test_a_role_is_what_the_code_declares_and_direct_watch_adds_to_it(tmp_path: Path) -> None:
    table = yaml.safe_load((Path(ENGINE) / "files/permissions.yaml").read_text())["services"]
    without = of_kind(await rendered(tmp_path, {"directWatch": False}), "ClusterRole")
    with_it = of_kind(await rendered(tmp_path), "ClusterRole")
    for name in SERVICES:
        own = table[name]
        assert without[f"aim-engine-{name}"]["rules"] == own["cluster"]
        assert with_it[f"aim-engine-{name}"]["rules"] == [*own["cluster"], *own["direct"]]


@pytest.mark.spec("FW-310", "FW-311", "FW-312", "FW-313", "FW-314", "FW-366", "MS-366")
async def test_users_get_three_roles_for_each_kind(tmp_path: Path) -> None:
    found = of_kind(await rendered(tmp_path), "ClusterRole")
    helpers = {name: one for name, one in found.items() if name.startswith("aim-engine-aim")}
    names = {
        f"aim-engine-{kind.kind.lower()}-{one}-role" for kind in OWN_KINDS for one in ("admin", "editor", "viewer")
    }
    assert helpers.keys() == names
    viewer, editor = (helpers[f"aim-engine-aimservice-{one}-role"] for one in ("viewer", "editor"))
    assert [rule["verbs"] for rule in viewer["rules"]] == [["get", "list", "watch"], ["get"]]
    assert editor["rules"][0]["verbs"] == ["create", "delete", "get", "list", "patch", "update", "watch"]
    for one in helpers.values():
        assert [rule["verbs"] for rule in one["rules"] if "/" in rule["resources"][0]] == [["get"]]
        assert not [label for label in one["metadata"]["labels"] if "aggregate" in label]
    aggregated = of_kind(await rendered(tmp_path, FULL), "ClusterRole")
    labels = aggregated["aim-engine-aimservice-editor-role"]["metadata"]["labels"]
    assert labels["rbac.authorization.k8s.io/aggregate-to-edit"] == "true"
    cluster = aggregated["aim-engine-aimclustermodel-editor-role"]["metadata"]["labels"]
    assert "rbac.authorization.k8s.io/aggregate-to-edit" not in cluster
    none = of_kind(await rendered(tmp_path, {"rbacHelpers": {"enabled": False}}), "ClusterRole")
    assert not [name for name in none if name.startswith("aim-engine-aim")]


@pytest.mark.spec("FW-283", "FW-305", "FW-325", "FW-706")
async def test_metrics_are_for_readers_by_https_and_prometheus_knows_their_ca(tmp_path: Path) -> None:
    readers = [{"name": "prometheus", "namespace": "monitoring"}]
    wanted: JsonObject = {"metrics": {"readers": readers}, "prometheus": {"enabled": True}}
    done = await rendered(tmp_path, wanted)
    service = of_kind(done, "Service")["aim-engine-serving-metrics"]
    assert service["spec"]["ports"] == [{"name": "https", "port": 8443, "targetPort": "https"}]
    assert set(of_kind(done, "ServiceMonitor")) == {f"aim-engine-{one}" for one in SERVICES}
    [endpoint] = of_kind(done, "ServiceMonitor")["aim-engine-serving"]["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["scheme"]) == ("https", "https")
    assert endpoint["bearerTokenFile"] == "/var/run/secrets/kubernetes.io/serviceaccount/token"
    assert endpoint["tlsConfig"] == {"insecureSkipVerify": True}
    named: JsonObject = {"prometheus": {"enabled": True, "tokenSecret": {"name": "scraper"}}}
    [other] = of_kind(await rendered(tmp_path, named), "ServiceMonitor")["aim-engine-serving"]["spec"]["endpoints"]
    assert other["authorization"] == {"credentials": {"name": "scraper", "key": "token"}}
    assert "bearerTokenFile" not in other
    bindings = of_kind(done, "ClusterRoleBinding")
    assert bindings["aim-engine-metrics-reader"]["subjects"] == [{"kind": "ServiceAccount", **readers[0]}]
    assert len(bindings["aim-engine-metrics-auth"]["subjects"]) == 5
    [admitted] = [
        rule
        for rule in of_kind(done, "NetworkPolicy")["aim-engine-serving"]["spec"]["ingress"]
        if "namespaceSelector" in rule["from"][0]
    ]
    assert admitted["ports"] == [{"protocol": "TCP", "port": "https"}]
    of_manager = await rendered(tmp_path, {**wanted, "certManager": {"enabled": True}})
    [certificate] = of_kind(of_manager, "Certificate").values()
    [endpoint] = of_kind(of_manager, "ServiceMonitor")["aim-engine-serving"]["spec"]["endpoints"]
    assert endpoint["tlsConfig"]["serverName"] in certificate["spec"]["dnsNames"]
    assert endpoint["tlsConfig"]["ca"]["secret"]["name"] == certificate["spec"]["secretName"]
    pod = of_kind(of_manager, "Deployment")["aim-engine-serving"]
    assert {"name": "AIM_METRICS_CERT_PATH", "value": "/etc/aim/metrics"} in container(pod)["env"]
    plain = await rendered(tmp_path, {"metrics": {"secure": False, "port": 8080}})
    assert of_kind(plain, "Service")["aim-engine-serving-metrics"]["spec"]["ports"][0]["name"] == "http"
    assert "aim-engine-metrics-auth" not in of_kind(plain, "ClusterRoleBinding")


@pytest.mark.spec("FW-303", "FW-304", "AR-272")
async def test_download_pods_have_an_account_of_their_own(tmp_path: Path) -> None:
    plain = await rendered(tmp_path)
    updater = of_kind(plain, "ClusterRole")["aim-engine-artifact-status-updater"]
    patched = {"apiGroups": ["aim.eai.amd.com"], "resources": ["aimartifacts/status"], "verbs": ["patch"]}
    assert updater["rules"] == [patched]
    for name, values in (("aim-engine-downloader", {}), ("aim-downloader", FULL)):
        done = await rendered(tmp_path, values)
        env = container(of_kind(done, "Deployment")["aim-engine-artifacts"])["env"]
        assert {"name": "AIM_ARTIFACT_SERVICE_ACCOUNT", "value": name} in env
    refused = await rendered(tmp_path, {"downloader": {"serviceAccount": "default"}})
    assert "downloader.serviceAccount" in refused.errors.replace("/", ".")


@pytest.mark.spec("MS-363", "MS-364", "MS-365", "FW-321")
async def test_a_model_source_and_a_config_are_passed_on_verbatim(tmp_path: Path) -> None:
    done = await rendered(tmp_path, {"clusterModelSource": {"enabled": True}})
    assert of_kind(done, "AIMClusterModelSource")["amd-aim-model-source"]["spec"] == {
        "registry": "docker.io",
        "filters": [{"image": "amdenterpriseai/aim-*", "versions": [">=0.8.4"]}],
        "syncInterval": "1h",
        "maxModels": 500,
    }
    assert not of_kind(await rendered(tmp_path), "AIMClusterModelSource")
    images = {"images": ["a/b:1"], "imagePullSecrets": [{"name": "s"}]}
    both = await rendered(tmp_path, {"clusterModelSource": {"enabled": True, "spec": images}})
    assert "clusterModelSource.spec.filters to null" in both.errors
    one = await rendered(tmp_path, {"clusterModelSource": {"enabled": True, "spec": {**images, "filters": None}}})
    spec = of_kind(one, "AIMClusterModelSource")["amd-aim-model-source"]["spec"]
    assert "filters" not in spec
    assert (spec["images"], spec["imagePullSecrets"]) == (["a/b:1"], [{"name": "s"}])


@pytest.mark.spec("FW-572")
@pytest.mark.parametrize(
    ("endpoint", "port"), [("http://collector.o11y:4318", 4318), ("https://collector.example", 443)]
)
async def test_services_send_the_share_of_traces_that_the_values_name_and_may_reach_the_collector(
    tmp_path: Path, endpoint: str, port: int
) -> None:
    done = await rendered(tmp_path, {"traces": {"endpoint": endpoint, "sampleRatio": 0.25}})
    for service in SERVICES:
        name = f"aim-engine-{service}"
        env = {one["name"]: one.get("value") for one in container(of_kind(done, "Deployment")[name])["env"]}
        assert env["OTEL_EXPORTER_OTLP_ENDPOINT"] == endpoint
        assert (env["OTEL_TRACES_SAMPLER"], env["OTEL_TRACES_SAMPLER_ARG"]) == ("parentbased_traceidratio", "0.25")
        egress = of_kind(done, "NetworkPolicy")[name]["spec"]["egress"]
        assert {"ports": [{"protocol": "TCP", "port": port}]} in egress


@pytest.mark.spec("FW-537", "FW-708")
@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"manager": {"replica": 2}}, "replica"),
        ({"services": {"serving": {"replicas": "two"}}}, "/services/serving/replicas"),
        ({"services": {"servings": {}}}, "servings"),
        ({"nats": {"replicas": 2}}, "/nats/replicas"),
        ({"nats": {"root": "Team A"}}, "/nats/root"),
        ({"nats": {"enabled": False, "url": "http://broker:4222"}}, "/nats/url"),
        ({"nats": {"limits": {"historyAge": "a week"}}}, "/nats/limits/historyAge"),
        ({"nats": {"storage": {"size": "large"}}}, "/nats/storage/size"),
        ({"metrics": {"enabled": False}, "prometheus": {"enabled": True}}, "prometheus.enabled needs metrics.enabled"),
        ({"manager": {"env": [{"name": "A", "value": 1}]}}, "/manager/env/0/value"),
        ({"manager": {"env": [{"nam": "A"}]}}, "nam"),
        ({"services": {"serving": {"tolerations": [{"key": 1}]}}}, "/services/serving/tolerations/0/key"),
        ({"manager": {"topologySpreadConstraints": [{**SPREAD, "maxSkew": "a"}]}}, "0/maxSkew"),
        ({"manager": {"resources": {"limits": {"cpu": "abc"}}}}, "/manager/resources/limits/cpu"),
        ({"manager": {"podLabels": {"app.kubernetes.io/name": "x"}}}, "/manager/podLabels"),
        ({"commonLabels": {"helm.sh/chart": "x"}}, "/commonLabels"),
        ({"metrics": {"port": 8081}}, "/metrics/port"),
        ({"nats": {"auth": {"publicKeys": {"aim": "UABC"}}}}, "/nats/auth/publicKeys/aim"),
        ({"nats": {"image": {"tag": ""}}}, "/nats/image/tag"),
        ({"nats": {"root": None}}, "root"),
        ({"services": None}, "services"),
        ({"manager": None}, "manager"),
        ({"traces": {"sampleRatio": "1.5"}}, "/traces/sampleRatio"),
        ({"networkPolicy": {"apiServerCidrs": ["nope"]}}, "/networkPolicy/apiServerCidrs/0"),
        ({"networkPolicy": {"registryPorts": []}}, "/networkPolicy/registryPorts"),
        ({"networkPolicy": {"dns": {"ports": [0]}}}, "/networkPolicy/dns/ports/0"),
        ({"nats": {"enabled": False}}, "nats.url is needed"),
        ({"nats": {"auth": {"enabled": True}}}, "nats.auth.publicKeys.aim is needed"),
        ({"nats": {**FULL["nats"], "tls": {"secretName": ""}}}, "nats.tls.secretName is needed"),
        ({"secrets": {"restrict": True, "allowed": [HUB, HUB]}}, "secrets.allowed has namespace team twice"),
        ({"secrets": {"allowed": [{"namespace": "team", "names": []}]}}, "/secrets/allowed/0/names"),
        ({"admissionPolicy": {"actions": ["Refuse"]}}, "/admissionPolicy/actions/0"),
    ],
    ids=str,
)
async def test_a_wrong_value_is_refused_by_name(tmp_path: Path, values: Mapping[str, Any], named: str) -> None:
    done = await rendered(tmp_path, dict(values))
    assert done.status != 0
    assert named in done.errors


@pytest.mark.spec("FW-572")
async def test_the_share_of_traces_may_be_set_on_the_command_line(tmp_path: Path) -> None:
    flags = ("--set", "traces.sampleRatio=0.1,traces.endpoint=http://collector:4318")
    done = await rendered(tmp_path, arguments=(*OFFLINE, *flags))
    env = {one["name"]: one.get("value") for one in container(of_kind(done, "Deployment")["aim-engine-serving"])["env"]}
    assert env["OTEL_TRACES_SAMPLER_ARG"] == "0.1"


@pytest.mark.spec("FW-537")
async def test_a_cluster_without_the_definitions_is_reported_so(tmp_path: Path) -> None:
    done = await rendered(tmp_path, {"crd": {"enabled": False}}, KUBERNETES)
    assert "leave crd.enabled=true, or kubectl apply --server-side -k deploy/crds first" in done.errors


@pytest.mark.spec("FW-535", "FW-538")
@pytest.mark.parametrize("values", [{}, FULL], ids=["plain", "full"])
async def test_nats_server_takes_the_configuration_of_the_chart(tmp_path: Path, values: JsonObject) -> None:
    config = broker_config(await rendered(tmp_path, values))
    assert config["jetstream"]["sync_interval"] == "always"
    users = config.get("authorization", {}).get("users", [])
    assert len(users) == (6 if values else 0)
    for user in users:
        assert not [one for one in user["permissions"]["publish"]["allow"] if one.startswith("aim.") or ".AIM_" in one]
    extra = f"authorization: {json.dumps(config['authorization'])}" if users else ""
    async with NatsServer(extra_config=extra) as server:
        assert server.running


@pytest.mark.spec("FW-340", "FW-325")
@pytest.mark.parametrize("values", [{}, FULL], ids=["plain", "full"])
async def test_the_api_server_takes_all_of_it_and_pod_security_restricted_finds_no_fault(
    real_cluster: RealCluster, api: RawApi, tmp_path: Path, values: JsonObject
) -> None:
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    path = f"/api/v1/namespaces/{NAMESPACE}"
    assert (await api.merge(path, {"metadata": {"labels": labels}})).status == 200
    objects = (await rendered(tmp_path, values)).objects
    done = await applied(real_cluster, objects, "--force-conflicts")
    assert (done.status, done.errors) == (0, "")
    assert len(done.output.splitlines()) == len(objects)
    # The same with a wish that is not restricted, to show that it would have been told.
    loose = {**values, "manager": {"securityContext": {"allowPrivilegeEscalation": True}}}
    worse = await applied(real_cluster, (await rendered(tmp_path, loose)).objects, "--force-conflicts")
    assert "violate" in worse.errors


def diagnosed(kubeconfig: Path) -> dict[str, Mark]:
    """What `aim doctor` says of the roles and the definitions."""
    with reading(str(kubeconfig), None) as cluster:
        found = doctor.examine(cluster, before=False)
        return {one.about: one.mark for one in found if one.about.startswith(("role of ", "definitions"))}


@pytest.mark.spec("CC-323", "FW-322", "FW-328", "FW-612", "FW-507")
async def test_installed_upgraded_and_uninstalled_the_definitions_and_their_objects_stay(
    real_cluster: RealCluster, api: RawApi
) -> None:
    config = ("--kubeconfig", str(real_cluster.kubeconfig_for(User.KUBECTL)), "-n", "chart-test")
    # Bound volumes and running pods need nodes; so nothing is waited for, nor checked afterwards (tests/installed).
    wanted = "clusterRuntimeConfig.enabled=true,clusterRuntimeConfig.name=of-chart"
    own = ("--create-namespace", "--take-ownership", "--no-hooks")
    first = await helm("install", "engine", ENGINE, *config, "--set", wanted, *own)
    assert first.status == 0, first.errors
    deployment = "/apis/apps/v1/namespaces/chart-test/deployments/aim-engine-serving"
    assert (await api.get(deployment)).body["spec"]["replicas"] == 1
    kubeconfig = real_cluster.kubeconfig_for(User.KUBECTL)
    well = {"definitions": Mark.OK, **{f"role of {one}": Mark.OK for one in SERVICES}}
    assert await asyncio.to_thread(diagnosed, kubeconfig) == well, "as the API server itself reviews the access"
    change = ("--set", "manager.replicas=2,secrets.restrict=true")
    second = await helm("upgrade", "engine", ENGINE, *config, "--reuse-values", "--no-hooks", *change)
    assert second.status == 0, second.errors
    limited = {f"role of {one}": Mark.NOTE for one in ("artifacts", "discovery", "model-sync")}
    assert await asyncio.to_thread(diagnosed, kubeconfig) == {**well, **limited}
    assert (await api.get(deployment)).body["spec"]["replicas"] == 2
    done = await helm("uninstall", "engine", *config)
    assert done.status == 0, done.errors
    assert (await api.get(deployment)).status == 404
    crd = await api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/aimservices.aim.eai.amd.com")
    assert crd.status == 200
    assert "deletionTimestamp" not in crd.body["metadata"]


@pytest.mark.spec("FW-537")
async def test_one_broker_becomes_three_where_its_statefulset_was_deleted(
    real_cluster: RealCluster, api: RawApi
) -> None:
    config = ("--kubeconfig", str(real_cluster.kubeconfig_for(User.KUBECTL)), "-n", "brokers-test", "--no-hooks")
    first = await helm("install", "engine", ENGINE, *config, "--create-namespace", "--take-ownership")
    assert first.status == 0, first.errors
    three = ("upgrade", "engine", ENGINE, *config, "--set", "nats.replicas=3")
    refused = await helm(*three)
    assert refused.status != 0
    assert "run `kubectl -n brokers-test delete statefulset aim-engine-nats`, then this command again" in refused.errors
    statefulset = "/apis/apps/v1/namespaces/brokers-test/statefulsets/aim-engine-nats"
    assert (await api.get(statefulset)).body["spec"]["replicas"] == 1
    await api.delete(statefulset)
    await api.until_gone(statefulset)
    for _ in range(2):
        done = await helm(*three)
        assert done.status == 0, done.errors
    assert (await api.get(statefulset)).body["spec"]["replicas"] == 3
    assert (await helm("uninstall", "engine", *config)).status == 0


@pytest.mark.spec("FW-537")
async def test_one_broker_is_refused_while_there_are_volumes_of_three(real_cluster: RealCluster, api: RawApi) -> None:
    config = ("--kubeconfig", str(real_cluster.kubeconfig_for(User.KUBECTL)), "-n", "volumes-test", "--no-hooks")
    upgrade = ("upgrade", "--install", "engine", ENGINE, *config, "--create-namespace", "--take-ownership", "--set")
    try:
        three = await helm(*upgrade, "nats.replicas=3")
        assert three.status == 0, three.errors
        claims = "/api/v1/namespaces/volumes-test/persistentvolumeclaims"
        # The StatefulSet controller makes it where one runs.
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        metadata = {"name": "data-aim-engine-nats-1"}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
        await api.post(claims, claim)
        await api.until(f"{claims}/data-aim-engine-nats-1", lambda reply: reply.status == 200)
        # Without a value, helm takes those of the release before.
        refused = await helm(*upgrade, "nats.replicas=1")
        assert refused.status != 0
        selector = "-l app.kubernetes.io/name=aim-engine,app.kubernetes.io/component=nats"
        assert f"`kubectl -n volumes-test delete pvc {selector}`, then this command again" in refused.errors
        await api.delete("/apis/apps/v1/namespaces/volumes-test/statefulsets/aim-engine-nats")
        await api.until_gone("/apis/apps/v1/namespaces/volumes-test/statefulsets/aim-engine-nats")
        await api.delete(claims)
        # Nothing here says that no pod uses them, which the claims wait for.
        await api.merge(f"{claims}/data-aim-engine-nats-1", {"metadata": {"finalizers": None}})
        await api.until_gone(f"{claims}/data-aim-engine-nats-1")
        done = await helm(*upgrade, "nats.replicas=1")
        assert done.status == 0, done.errors
    finally:
        assert (await helm("uninstall", "engine", *config)).status == 0


@pytest.mark.spec("FW-539")
async def test_the_plain_manifests_are_those_of_the_chart_and_kubectl_takes_them(real_cluster: RealCluster) -> None:
    folder = CHARTS.parent / "manifests"
    wanted = manifests(find_toolset().program(Program.HELM), Path(ENGINE))
    assert {name: (folder / name).read_text() for name in wanted} == wanted, "run `make manifests`"
    config = str(real_cluster.kubeconfig_for(User.KUBECTL))
    arguments = ("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-k", str(folder))
    done = await run(Program.KUBECTL, "--kubeconfig", config, *arguments)
    assert (done.status, done.errors) == (0, "")
