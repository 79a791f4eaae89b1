"""The allow-list of Secrets: roles of the chart, held against what services ask of a real API server (FW-507)."""

import asyncio
from pathlib import Path
from typing import Final

import pytest
from support.controlplane import RawApi
from support.helm import NAMESPACE as SYSTEM
from support.helm import rendered
from support.nats import eventually

from aim_discovery.image_effects import PullSecretReader
from aim_domain import read_pull_secret
from aim_domain.pull_secrets import SecretsParams
from aim_local.realcluster import RealCluster
from controller_runtime import EffectError, JsonObject, KubeClient
from controller_runtime.kube.config import Connection, KubeconfigCredentials, from_kubeconfig

pytestmark = pytest.mark.asyncio(loop_scope="session")

RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
OWN: Final = "aim-engine-secrets"
LOGIN: Final = {".dockerconfigjson": '{"auths": {"ghcr.io": {"auth": "cm9ib3Q6c2VjcmV0"}}}'}


async def install(api: RawApi, objects: list[JsonObject]) -> list[str]:
    """The roles of discovery and their bindings under names of their own; returns their paths."""
    made = []
    for one in objects:
        name, namespace = one["metadata"]["name"], one["metadata"].get("namespace")
        if not one["apiVersion"].startswith("rbac") or name not in ("aim-engine-discovery", OWN):
            continue
        plural = f"{one['kind'].lower()}s"
        collection = f"{RBAC}/namespaces/{namespace}/{plural}" if namespace else f"{RBAC}/{plural}"
        await api.created(collection, one)
        made.append(f"{collection}/{name}")
    return made


async def account(real_cluster: RealCluster, api: RawApi, namespace: str) -> Connection:
    """The service account of discovery, by a token as its pod has it."""
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    name = "aim-engine-discovery"
    await api.created(accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    answer = await api.created(f"{accounts}/{name}/token", request)
    header = f"Bearer {answer['status']['token']}"
    known = await from_kubeconfig(str(real_cluster.kubeconfig_for("discovery")))

    async def read() -> str:
        return header

    return Connection(known.server, KubeconfigCredentials(header, read), known.tls)


@pytest.mark.spec("FW-507", "DI-074", "MS-167")
async def test_discovery_reads_the_secrets_that_are_allowed_and_names_the_remedy_for_others(
    real_cluster: RealCluster, api: RawApi, namespace: str, tmp_path: Path
) -> None:
    for name in ("registry-pull", "private"):
        secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson"}
        body = {**secret, "metadata": {"name": name}, "stringData": LOGIN}
        await api.created(f"/api/v1/namespaces/{namespace}/secrets", body)
    values: JsonObject = {
        "secrets": {"restrict": True, "allowed": [{"namespace": namespace, "names": ["registry-pull"]}]}
    }
    done = await rendered(tmp_path, values, namespace=namespace)
    paths = await install(api, done.objects)
    try:
        async with KubeClient(await account(real_cluster, api, namespace), service="discovery") as kube:

            async def allowed() -> bool:
                return (await read_pull_secret(kube, namespace, "registry-pull")).problem is None

            await eventually(allowed, "the roles are known to the API server", interval=0.2)
            other = await read_pull_secret(kube, namespace, "private")
            assert other.problem is not None
            assert other.problem.reason == "SecretAccessFailed"
            assert "add it to secrets.allowed of the chart" in other.problem.message
            params = SecretsParams(namespace=namespace, secrets=("private",))
            with pytest.raises(EffectError, match=r"private cannot be read: .*secrets\.allowed of the chart"):
                await PullSecretReader(kube)(params)
    finally:
        await asyncio.gather(*map(api.delete, paths))


@pytest.mark.spec("FW-507")
async def test_without_the_list_roles_are_as_the_code_declares_and_with_it_nobody_reads_any_other(
    tmp_path: Path,
) -> None:
    plain = (await rendered(tmp_path)).objects
    of_services = {("ClusterRole", "", f"aim-engine-{one}") for one in ("artifacts", "discovery")}
    assert readers(plain) == {*of_services, ("Role", SYSTEM, "aim-engine-model-sync")}
    allowed = [{"namespace": SYSTEM, "names": ["hub"]}, {"namespace": "team", "names": ["a", "b"]}]
    done = (await rendered(tmp_path, {"secrets": {"restrict": True, "allowed": allowed}})).objects
    assert readers(done) == {("Role", SYSTEM, OWN), ("Role", "team", OWN)}
    assert one_of(done, "Role", OWN, "team")["rules"] == [
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"], "verbs": ["get"]}
    ]
    of_team, of_system = (one_of(done, "RoleBinding", OWN, where)["subjects"] for where in ("team", SYSTEM))
    assert [one["name"] for one in of_team] == ["aim-engine-artifacts", "aim-engine-discovery"]
    assert [one["name"] for one in of_system] == [*(one["name"] for one in of_team), "aim-engine-model-sync"]
    # Everything else stays as it was.
    before, after = (one_of(some, "ClusterRole", "aim-engine-discovery") for some in (plain, done))
    rest = [{**rule, "resources": [one for one in rule["resources"] if one != "secrets"]} for rule in before["rules"]]
    assert after["rules"] == rest


def readers(objects: list[JsonObject]) -> set[tuple[str, str, str]]:
    """Kind, namespace and name of the roles that let Secrets be read."""
    return {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"])
        for one in objects
        for rule in one.get("rules") or ()
        if "secrets" in rule.get("resources", ())
    }


def one_of(objects: list[JsonObject], kind: str, name: str, namespace: str = "") -> JsonObject:
    wanted = (kind, name, namespace)
    [found] = [
        one for one in objects if (one["kind"], one["metadata"]["name"], one["metadata"].get("namespace", "")) == wanted
    ]
    return found
