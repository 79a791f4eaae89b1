"""Users, audit counts and KServe's settings of a real cluster, as plain data."""

import csv
import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from aim_domain.services import SERVICES
from aim_local.realcluster import AuditLog, ClusterSettings, RequestKey, User, kserve
from aim_local.realcluster.settings import CONTROLLERS, PERMISSIONS
from aim_local.realcluster.users import USERS, kubeconfig, new_tokens, service_roles, token_file, user_name
from controller_runtime import JsonObject


def event(number: int, user: str, verb: str, **reference: str) -> bytes:
    """A line about a request that was received just now."""
    reported = {"auditID": str(number), "verb": verb, "user": {"username": user}, "objectRef": reference}
    received = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    return json.dumps({**reported, "requestReceivedTimestamp": received}).encode() + b"\n"


async def test_requests_are_counted_by_user_verb_and_resource(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(path)
    assert await log.counts() == Counter()
    serving = user_name("serving")
    path.write_bytes(
        event(1, serving, "list", resource="pods")
        + event(2, serving, "list", resource="pods")
        # A watch is told when it begins and when it ends.
        + event(3, "aim-local:actors", "watch", resource="jobs", apiGroup="batch")
        + event(3, "aim-local:actors", "watch", resource="jobs", apiGroup="batch")
        + event(4, "system:apiserver", "patch", resource="nodes", subresource="status")
        + b'{"auditID": "5", "half": '
    )
    assert await log.counts() == {
        RequestKey("serving", "list", "pods"): 2,
        RequestKey("actors", "watch", "jobs.batch"): 1,
        RequestKey("system:apiserver", "patch", "nodes/status"): 1,
    }


async def test_a_reset_begins_a_new_count(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(path)
    watch = event(1, "x", "watch", resource="pods")
    path.write_bytes(watch)
    await log.reset()
    assert await log.counts() == Counter()
    with path.open("ab") as file:
        # The end of the watch.
        file.write(watch)
        file.write(event(2, "x", "get", resource="pods"))
    assert await log.counts() == {RequestKey("x", "get", "pods"): 1}


@pytest.mark.parametrize("written", [1, 40, -1])
async def test_a_line_that_is_half_written_at_a_reset_is_of_the_former_count(tmp_path: Path, written: int) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(path)
    former = event(1, "x", "list", resource="pods")
    path.write_bytes(former + former[:written])
    await log.reset()
    with path.open("ab") as file:
        file.write(former[written:])
        file.write(event(2, "x", "get", resource="pods"))
    assert await log.counts() == {RequestKey("x", "get", "pods"): 1}


@pytest.mark.parametrize(
    ("controllers", "makes_them"),
    [
        (CONTROLLERS, True),
        (("*", "-serviceaccount-controller"), False),
        (("namespace-controller", "serviceaccount-controller"), True),
        (("namespace-controller",), False),
        ((), False),
    ],
)
def test_service_accounts_are_made_where_their_controller_runs(
    tmp_path: Path, controllers: tuple[str, ...], makes_them: bool
) -> None:
    assert ClusterSettings(tmp_path, controllers=controllers).makes_accounts is makes_them


def test_every_user_has_a_token_of_its_own() -> None:
    tokens = new_tokens()
    rows = list(csv.reader(token_file(tokens).splitlines()))
    assert len({token for token, *_ in rows}) == len(USERS)
    groups = {uid: group.split(",") for _, _, uid, group in rows}
    assert groups["admin"] == ["system:masters"]
    assert groups["serving"] == ["system:serviceaccounts", "system:serviceaccounts:aim-system"]


def test_services_go_by_the_names_that_they_have_in_a_cluster() -> None:
    table = yaml.safe_load(PERMISSIONS.read_text(encoding="utf-8"))
    subjects = [subject for role in service_roles(table) for subject in role.get("subjects", ())]
    names = {f"system:serviceaccount:{one['namespace']}:{one['name']}" for one in subjects}
    assert names == {user_name(service) for service in SERVICES}


def test_a_kubeconfig_names_the_user() -> None:
    config = yaml.safe_load(kubeconfig("https://127.0.0.1:1", Path("/ca.crt"), User.KUBECTL, "secret"))
    assert config["users"] == [{"name": "kubectl", "user": {"token": "secret"}}]
    assert config["clusters"][0]["cluster"]["certificate-authority"] == "/ca.crt"


SHIPPED: JsonObject = {
    "metadata": {"name": "inferenceservice-config", "namespace": "elsewhere"},
    "data": {
        "_example": "long",
        "deploy": '{"defaultDeploymentMode": "Serverless"}',
        "ingress": '{"ingressGateway": "a/b", "disableIngressCreation": false}',
        "localModel": '{"enabled": true, "fsGroup": 1000}',
        "inferenceService": '{"resource": {"cpuLimit": "1"}}',
        "logger": '{"image": "kserve/agent"}',
    },
}


@pytest.mark.spec("FW-327")
def test_kserve_is_set_up_as_the_platform_needs_it() -> None:
    made = kserve.settings(SHIPPED, "kserve")
    data = {key: json.loads(text) for key, text in made["data"].items()}
    assert made["metadata"] == {"name": "inferenceservice-config", "namespace": "kserve"}
    assert data["deploy"] == {"defaultDeploymentMode": "Standard"}
    assert data["ingress"]["disableIngressCreation"]
    assert data["ingress"]["ingressGateway"] == "a/b"
    assert data["localModel"] == {"enabled": False, "fsGroup": 1000}
    assert set(data["inferenceService"]["resource"].values()) == {""}
    assert data["logger"] == {"image": "kserve/agent"}
    assert "_example" not in data


def test_webhooks_are_called_at_the_loopback() -> None:
    shipped = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "x", "creationTimestamp": None},
        "webhooks": [{"name": "v", "clientConfig": {"service": {"name": "s", "namespace": "n", "path": "/validate"}}}],
    }
    [made] = kserve.webhooks([shipped], kserve.at_loopback(9443), b"PEM")
    assert made["metadata"] == {"name": "x"}
    assert made["webhooks"] == [
        {"name": "v", "clientConfig": {"url": "https://127.0.0.1:9443/validate", "caBundle": "UEVN"}}
    ]
