"""The deployed console: what the chart makes of it, and who sees what where a real API server judges."""

import dataclasses
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import pytest_asyncio
import yaml
from support.console_objects import service
from support.console_site import reported
from support.controlplane import RawApi
from support.helm import CHARTS, NAMESPACE, of_kind, rendered, run
from support.hosted_console import Browser, Time, browser, hosted_console
from support.nats import eventually

from aim_console.sessions import REVIEWED_SECONDS
from aim_console.tokens import KNOWN_SECONDS
from aim_domain.services import SERVICES
from aim_local.assets import Program
from aim_local.realcluster import RealCluster, User
from aim_packaging.keys import new_key
from controller_runtime import JsonObject
from controller_runtime.kube.config import Connection, KubeconfigCredentials, from_kubeconfig

pytestmark = pytest.mark.asyncio(loop_scope="session")

RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
ON: Final[JsonObject] = {"console": {"enabled": True}}
FULL: Final[JsonObject] = {
    "manager": {"replicas": 2, "image": {"repository": "registry.example/aim"}, "tolerations": [{"key": "infra"}]},
    "services": {"console": {"resources": {"limits": {"memory": "1Gi"}}, "env": [{"name": "A", "value": "b"}]}},
    "console": {"enabled": True, "hosts": ["aim.example.com"], "namespaces": ["ingress"]},
    "certManager": {"enabled": True},
    "nats": {"tls": {"secretName": "nats-tls"}, "auth": {"enabled": True, "publicKeys": {}}},
}


# The chart


@pytest.mark.spec("FW-683")
async def test_it_is_there_only_where_it_is_wanted(tmp_path: Path) -> None:
    done = await rendered(tmp_path)
    for kind in ("Deployment", "Service", "ServiceAccount", "ClusterRole", "NetworkPolicy"):
        assert "aim-engine-console" not in of_kind(done, kind)


@pytest.mark.spec("FW-683", "FW-324")
async def test_it_is_one_pod_that_asks_the_api_server_about_viewers_and_nothing_else(tmp_path: Path) -> None:
    done = await rendered(tmp_path, ON)
    table = yaml.safe_load((CHARTS / "aim-engine/files/permissions.yaml").read_text())
    assert of_kind(done, "ClusterRole")["aim-engine-console"]["rules"] == table["console"]
    bound = [
        (kind, name)
        for kind in ("ClusterRoleBinding", "RoleBinding")
        for name, one in of_kind(done, kind).items()
        if any(subject["name"] == "aim-engine-console" for subject in one["subjects"])
    ]
    assert bound == [("ClusterRoleBinding", "aim-engine-console")]
    deployment = of_kind(done, "Deployment")["aim-engine-console"]
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert (deployment["spec"]["replicas"], pod["serviceAccountName"]) == (1, "aim-engine-console")
    assert container["image"].startswith("docker.io/amdenterpriseai/aim-engine-cli:")
    assert container["args"] == ["console", "--listen=:8443", "--host=aim-engine-console.aim-system.svc"]
    probe = {"port": "https", "scheme": "HTTPS"}
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", **probe}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", **probe}
    policy = of_kind(done, "NetworkPolicy")["aim-engine-console"]["spec"]
    assert "ingress" not in policy, "nobody is let in but the node, from where a port-forward comes"
    assert policy["egress"] == of_kind(done, "NetworkPolicy")["aim-engine-routing"]["spec"]["egress"]


@pytest.mark.spec("FW-683", "FW-326")
async def test_it_has_the_values_of_the_other_pods_and_its_own_over_them(tmp_path: Path) -> None:
    values = {**FULL, "nats": {"tls": FULL["nats"]["tls"], "auth": await _keys(tmp_path)}}
    done = await rendered(tmp_path, values)
    deployment = of_kind(done, "Deployment")["aim-engine-console"]
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert deployment["spec"]["replicas"] == 1, "sessions are in the memory of one"
    assert pod["tolerations"] == [{"key": "infra"}]
    assert container["image"].startswith("registry.example/aim-cli:")
    assert container["resources"]["limits"] == {"cpu": "500m", "memory": "1Gi"}
    assert "--leader-elect" not in container["args"]
    assert container["args"][2:] == [
        "--cert-path=/etc/aim/console",
        "--host=aim-engine-console.aim-system.svc",
        "--host=aim.example.com",
    ]
    env = {one["name"]: one["value"] for one in container["env"]}
    assert env["AIM_NATS_URL"] == "tls://aim-engine-nats.aim-system.svc:4222"
    assert env["AIM_NATS_CREDENTIALS_FILE"] == "/etc/aim/nats/user.nk"
    assert env["A"] == "b"
    secrets = {one["name"]: one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one}
    assert secrets["nats"] == "aim-engine-nats-aim"
    certificate = of_kind(done, "Certificate")["aim-engine-console"]["spec"]
    assert certificate["secretName"] == secrets["console"]
    assert certificate["dnsNames"] == ["aim-engine-console.aim-system.svc", "aim.example.com"]
    [admitted] = of_kind(done, "NetworkPolicy")["aim-engine-console"]["spec"]["ingress"]
    [expression] = admitted["from"][0]["namespaceSelector"]["matchExpressions"]
    assert expression["values"] == ["ingress"]
    own = await rendered(
        tmp_path, {**ON, "console": {"enabled": True, "certSecret": "mine"}, "certManager": {"enabled": True}}
    )
    assert "aim-engine-console" not in of_kind(own, "Certificate")


@pytest.mark.spec("FW-683")
async def test_alerts_lead_to_it_where_it_has_a_name(tmp_path: Path) -> None:
    watched: JsonObject = {"prometheus": {"enabled": True, "rules": True}}
    hosts: JsonObject = {"console": {"enabled": True, "hosts": ["aim.example.com", "other.example.com"]}}
    for values, url in ((watched, None), (watched | ON, None), (watched | hosts, "https://aim.example.com/")):
        done = await rendered(tmp_path, values)
        [group] = of_kind(done, "PrometheusRule")["aim-engine"]["spec"]["groups"]
        assert {rule["annotations"].get("console_url") for rule in group["rules"]} == {url}
        assert all("runbook_url" in rule["annotations"] for rule in group["rules"])


@pytest.mark.spec("FW-683")
@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"console": {"hosts": ["*"]}}, "/console/hosts/0"),
        ({"console": {"replicas": 2}}, "replicas"),
        ({"services": {"console": {"replica": 2}}}, "replica"),
    ],
    ids=str,
)
async def test_a_wrong_value_is_refused_by_name(tmp_path: Path, values: JsonObject, named: str) -> None:
    done = await rendered(tmp_path, values)
    assert done.status != 0
    assert named in done.errors


@pytest.mark.spec("FW-683", "FW-340")
async def test_the_api_server_takes_it_and_pod_security_restricted_finds_no_fault(
    real_cluster: RealCluster, api: RawApi, tmp_path: Path
) -> None:
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    assert (await api.merge(f"/api/v1/namespaces/{NAMESPACE}", {"metadata": {"labels": labels}})).status == 200
    values = {**FULL, "certManager": {}, "nats": {"auth": await _keys(tmp_path)}}
    objects = [one for one in (await rendered(tmp_path, values)).objects if _is_of_console(one)]
    assert len(objects) == 6
    config = str(real_cluster.kubeconfig_for(User.KUBECTL))
    flags = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "--force-conflicts", "-f", "-")
    done = await run(Program.KUBECTL, "--kubeconfig", config, *flags, stdin=yaml.safe_dump_all(objects))
    assert (done.status, done.errors) == (0, "")


def _is_of_console(obj: JsonObject) -> bool:
    return bool(obj["metadata"]["labels"].get("app.kubernetes.io/component") == "console")


async def _keys(folder: Path) -> JsonObject:
    done = await rendered(folder, {"nats": {"auth": {"enabled": True}}})
    assert "publicKeys" in done.errors
    names = ("aim", *(f"aim-{one}" for one in SERVICES))
    return {"enabled": True, "publicKeys": {name: new_key().public for name in names}}


# Viewers


class Teams(NamedTuple):
    """A console with a service in each of two namespaces, asked with the role that the chart gives it."""

    address: str
    clock: Time
    one: str
    other: str


@pytest_asyncio.fixture(loop_scope="session")
async def teams(real_cluster: RealCluster, api: RawApi, namespace: str, tmp_path: Path) -> AsyncIterator[Teams]:
    other = f"{namespace}-b"
    await api.created("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    clock = Time()
    objects = [service(namespace, "chat-one"), service(other, "chat-other")]
    async with (
        reported(tmp_path, objects) as (broker, _),
        of_chart(real_cluster, api, tmp_path) as connection,
        hosted_console(broker.url, connection, clock) as address,
    ):
        yield Teams(address, clock, namespace, other)


@asynccontextmanager
async def of_chart(cluster: RealCluster, api: RawApi, folder: Path) -> AsyncIterator[Connection]:
    """The API server, as the console of the chart reaches it."""
    done = await rendered(folder, ON)
    account = of_kind(done, "ServiceAccount")["aim-engine-console"]
    role, binding = (of_kind(done, kind)["aim-engine-console"] for kind in ("ClusterRole", "ClusterRoleBinding"))
    await api.created(f"{RBAC}/clusterroles", role)
    await api.created(f"{RBAC}/clusterrolebindings", binding)
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    await api.created(accounts, account)
    try:
        header = f"Bearer {await requested(api, NAMESPACE, 'aim-engine-console')}"

        async def read() -> str:
            return header

        found = await from_kubeconfig(str(cluster.kubeconfig_for(User.KUBECTL)))
        yield dataclasses.replace(found, credentials=KubeconfigCredentials(header, read))
    finally:
        await api.delete(f"{accounts}/aim-engine-console")
        await api.delete(f"{RBAC}/clusterrolebindings/aim-engine-console")
        await api.delete(f"{RBAC}/clusterroles/aim-engine-console")


async def viewer(api: RawApi, namespace: str, name: str, may_list: Iterable[str] = ()) -> str:
    """The token of an account that may list some kinds in its namespace."""
    group = "rbac.authorization.k8s.io"
    account: JsonObject = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    await api.created(f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
    rules = [{"apiGroups": ["aim.eai.amd.com"], "resources": list(may_list), "verbs": ["list"]}]
    if may_list:
        metadata = {"name": name}
        role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": rules}
        await api.created(f"{RBAC}/namespaces/{namespace}/roles", role)
        binding = {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }
        await api.created(f"{RBAC}/namespaces/{namespace}/rolebindings", binding)
    return await requested(api, namespace, name)


async def requested(api: RawApi, namespace: str, account: str) -> str:
    """A token, as `kubectl create token` gets it."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    return str((await api.created(path, request))["status"]["token"])


async def sees(teams: Teams, opened: Browser, words: str) -> bool:
    """Whether a viewer sees something; rights that were just given are known to the authorizer a moment later."""
    teams.clock.passed += KNOWN_SECONDS
    return words in (await opened.get("/")).text


@pytest.mark.spec("FW-678", "FW-683")
async def test_viewers_of_two_namespaces_see_their_own_and_a_stranger_sees_nothing(teams: Teams, api: RawApi) -> None:
    tokens = {
        "one": await viewer(api, teams.one, "one", ["aimservices"]),
        "other": await viewer(api, teams.other, "other", ["aimservices"]),
        "nobody": await viewer(api, teams.one, "nobody"),
    }
    async with (
        browser(teams.address) as one, browser(teams.address) as other, browser(teams.address) as nobody,
    ):  # fmt: skip
        for opened, token in zip((one, other, nobody), tokens.values(), strict=True):
            assert (await opened.log_in(token)).status == 303
        await eventually(lambda: sees(teams, one, "chat-one"), "the first viewer's rights")
        await eventually(lambda: sees(teams, other, "chat-other"), "the other viewer's rights")
        about = {
            name: f"/objects/aimservices/{at}/chat-{name}" for name, at in (("one", teams.one), ("other", teams.other))
        }
        seen = {
            name: [path for path in about if (await opened.get(about[path])).status == 200]
            for name, opened in (("one", one), ("other", other), ("nobody", nobody))
        }
        assert seen == {"one": ["one"], "other": ["other"], "nobody": []}
        assert "chat-other" not in (await one.get("/")).text
        page = await nobody.get("/")
        assert (page.status, "chat-" in page.text) == (200, False)
        for part in ("story", "replay"):
            assert (await one.get(f"{about['other']}/{part}")).status == 404
        assert (await one.get("/bus")).status == 403
        # The same by the header of a proxy, and with nothing left of the session.
        sent = {"authorization": f"Bearer {tokens['other']}"}
        assert "chat-one" not in (await one.get("/", **sent)).text


@pytest.mark.spec("FW-872")
async def test_the_api_server_decides_who_reads_events(teams: Teams, api: RawApi) -> None:
    about = {"kind": "AIMService", "namespace": teams.one, "name": "chat-one"}
    event = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "chat-one.1"}, "involvedObject": about,
        "type": "Warning", "reason": "Planted", "message": "by a test",
    }  # fmt: skip
    await api.created(f"/api/v1/namespaces/{teams.one}/events", event)
    token = await viewer(api, teams.one, "reader", ["aimservices"])
    page = f"/objects/aimservices/{teams.one}/chat-one/events"
    async with browser(teams.address) as opened:
        assert (await opened.log_in(token)).status == 303
        await eventually(lambda: sees(teams, opened, "chat-one"), "the viewer's rights")
        refused = (await opened.get(page)).text
        assert f"cannot be read: events is forbidden: User &#34;system:serviceaccount:{teams.one}:reader" in refused
        assert "Planted" not in refused
        events = {"apiGroups": [""], "resources": ["events"], "verbs": ["list"]}
        role = f"{RBAC}/namespaces/{teams.one}/roles/reader"
        rules = (await api.get(role)).body["rules"]
        assert (await api.merge(role, {"rules": [*rules, events]})).status == 200

        async def shown() -> bool:
            return "Planted" in (await opened.get(page)).text

        await eventually(shown, "the authorizer knows the new rule")
        # The same by the header of a proxy.
        async with browser(teams.address) as proxied:
            assert "Planted" in (await proxied.get(page, authorization=f"Bearer {token}")).text


@pytest.mark.spec("FW-678", "FW-680")
async def test_a_token_of_nobody_is_refused_with_one_line(teams: Teams, api: RawApi) -> None:
    token = await viewer(api, teams.one, "late", ["aimservices"])
    head, body, signature = token.split(".")
    async with browser(teams.address) as opened:
        for wrong in ("nonsense", f"{head}.{body}.{signature[:-4]}AAAA"):
            refused = await opened.log_in(wrong)
            assert (refused.status, refused.reported.count("\n")) == (401, 0)
            assert refused.reported.startswith("the API server does not know this token")
        assert (await opened.log_in(token)).status == 303


@pytest.mark.spec("FW-679")
async def test_with_its_account_a_token_and_its_session_end(teams: Teams, api: RawApi) -> None:
    token = await viewer(api, teams.one, "gone", ["aimservices"])
    async with browser(teams.address) as opened:
        assert (await opened.log_in(token)).status == 303
        assert (await opened.get("/")).status == 200
        await api.delete(f"/api/v1/namespaces/{teams.one}/serviceaccounts/gone")

        async def is_out() -> bool:
            teams.clock.passed += REVIEWED_SECONDS
            return (await opened.get("/")).status == 401

        # The API server itself remembers for ten seconds whom it recognised. So few looks pass no eight hours.
        await eventually(is_out, "the end of the session", 30, interval=0.5)
        assert (await opened.log_in(token)).status == 401
