"""The real kubectl, unchanged."""

import asyncio
import itertools
import json

import pytest
import yaml
from support.controlplane import Kubectl
from support.suite import SuiteApi
from support.suite_widgets import WIDGETS, widget

from controller_runtime import JsonObject

RBAC = "rbac.authorization.k8s.io/v1"


def _manifest(**spec: object) -> str:
    widget = {
        "apiVersion": "test.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "a", "labels": {"tier": "web"}},
        "spec": {"size": 3} | spec,
    }
    return yaml.safe_dump(widget)


async def test_create_get_delete(kubectl: Kubectl) -> None:
    assert (await kubectl("create", "namespace", "$ns-team")).out == "namespace/$ns-team created\n"
    await kubectl("create", "configmap", "a", "--from-literal=x=1", "-n", "$ns-team")
    table = (await kubectl("get", "cm", "-n", "$ns-team", "--no-headers")).out.split()
    assert table[:2] == ["a", "1"]
    assert json.loads((await kubectl("get", "cm", "a", "-n", "$ns-team", "-o", "json")).out)["data"] == {"x": "1"}
    assert (await kubectl("delete", "cm", "a", "-n", "$ns-team")).out == 'configmap "a" deleted\n'
    missing = await kubectl("get", "cm", "a", "-n", "$ns-team", check=False)
    assert (missing.code, missing.err) == (1, 'Error from server (NotFound): configmaps "a" not found\n')
    await kubectl("delete", "namespace", "$ns-team", "--timeout=60s")


async def test_apply_is_idempotent_and_merges(widgets: SuiteApi, kubectl: Kubectl) -> None:
    assert "created" in (await kubectl("apply", "-f", "-", stdin=_manifest(replicas=1))).out
    assert "unchanged" in (await kubectl("apply", "-f", "-", stdin=_manifest(replicas=1))).out
    assert "configured" in (await kubectl("apply", "-f", "-", stdin=_manifest())).out
    assert "replicas" not in (await widgets.get(f"{WIDGETS}/a")).body["spec"]
    refused = await kubectl("apply", "-f", "-", stdin=_manifest(flavour="sweet"), check=False)
    assert 'strict decoding error: unknown field "spec.flavour"' in refused.err


async def test_apply_of_a_built_in_kind_merges_by_key(api: SuiteApi, kubectl: Kubectl) -> None:
    def deployment(*containers: str) -> str:
        template = {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": name, "image": "i"} for name in containers]},
        }
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        return json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})

    await kubectl("apply", "-f", "-", stdin=deployment("one", "two"))
    await kubectl("apply", "-f", "-", stdin=deployment("two"))
    live = (await api.get("/apis/apps/v1/namespaces/$ns/deployments/d")).body
    assert [c["name"] for c in live["spec"]["template"]["spec"]["containers"]] == ["two"]
    assert (await kubectl("scale", "deployment", "d", "--replicas=3")).out == "deployment.apps/d scaled\n"
    await kubectl("wait", "deployment/d", "--for=jsonpath={.spec.replicas}=3", "--timeout=60s")


async def test_server_side_apply_reports_conflicts(widgets: SuiteApi, kubectl: Kubectl) -> None:
    await kubectl("apply", "--server-side", "-f", "-", stdin=_manifest())
    other = _manifest(size=4)
    refused = await kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", stdin=other, check=False)
    assert "Apply failed with 1 conflict" in refused.err
    forced = ("apply", "--server-side", "--force-conflicts", "--field-manager=other", "-f", "-")
    await kubectl(*forced, stdin=other)
    assert (await widgets.get(f"{WIDGETS}/a")).body["spec"]["size"] == 4


async def test_printer_columns_and_describe(widgets: SuiteApi, kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=_manifest())
    await widgets.merge(f"{WIDGETS}/a/status", {"status": {"phase": "Ready"}})
    lines = (await kubectl("get", "wd")).out.splitlines()
    assert lines[0].split() == ["NAME", "SIZE", "PHASE"]
    assert lines[1].split() == ["a", "3", "Ready"]
    described = (await kubectl("describe", "widget", "a")).out
    assert "tier=web" in described
    assert "Events:  " in described


async def test_patch_label_and_wait(widgets: SuiteApi, kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=_manifest())
    await kubectl("patch", "widget", "a", "--type=merge", "-p", '{"spec":{"size":9}}')
    await kubectl("label", "widget", "a", "zone=eu")
    await kubectl("annotate", "widget", "a", "note=x")
    live = (await widgets.get(f"{WIDGETS}/a")).body
    assert (live["spec"]["size"], live["metadata"]["labels"]["zone"]) == (9, "eu")
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(
            kubectl("wait", "widget/a", "--for=jsonpath={.status.phase}=Ready", "--timeout=60s")
        )
        await widgets.merge(f"{WIDGETS}/a/status", {"status": {"phase": "Ready"}})
    assert waiting.result().out == "widget.test.example.com/a condition met\n"
    await kubectl("patch", "widget", "a", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Done"}}')
    assert (await widgets.get(f"{WIDGETS}/a")).body["status"]["phase"] == "Done"


async def test_watching_prints_changes(widgets: SuiteApi, kubectl: Kubectl) -> None:
    await widgets.created(WIDGETS, widget("early", size=3))
    async with asyncio.TaskGroup() as tasks:
        columns = ("-o", "custom-columns=N:.metadata.name,S:.spec.size")
        watch = tasks.create_task(
            kubectl("get", "widgets", "-w", "--request-timeout=8s", "--no-headers", *columns, check=False)
        )
        # Whenever the watch begins and ends, there is a change before and after it.
        for size in itertools.takewhile(lambda _: not watch.done(), itertools.count(20)):
            await widgets.merge(f"{WIDGETS}/early", {"spec": {"size": size}})
            await asyncio.sleep(0.1)
    sizes = [int(line.split()[1]) for line in watch.result().out.splitlines()]
    assert len(sizes) > 1
    assert sizes == [*range(sizes[0], sizes[0] + len(sizes))]


async def test_discovery_and_explain(widgets: SuiteApi, kubectl: Kubectl) -> None:
    resources = (await kubectl("api-resources", "--api-group=test.example.com", "--no-headers")).out.split()
    assert resources == ["widgets", "wd", "test.example.com/v1", "true", "Widget"]
    assert "colour\t<string>" in (await kubectl("explain", "widget.spec")).out
    assert "-required-" in (await kubectl("explain", "pod.spec.containers")).out
    assert (await kubectl("auth", "can-i", "create", "pods")).out == "yes\n"
    version = json.loads((await kubectl("version", "-o", "json")).out)["serverVersion"]
    assert version["gitVersion"].startswith("v1.34.")


async def test_every_listed_kind_can_be_printed(kubectl: Kubectl) -> None:
    names = (await kubectl("api-resources", "--verbs=list", "-o", "name")).out.split()
    printed = await kubectl("get", ",".join(names), "-A")
    assert "namespace/default" in printed.out


async def test_describe_of_a_pod_shows_its_events(api: SuiteApi, kubectl: Kubectl) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    pod: JsonObject = await api.created("/api/v1/namespaces/$ns/pods", {"metadata": {"name": "p"}, "spec": spec})
    event = {
        "metadata": {"name": "p.1"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "$ns", "uid": pod["metadata"]["uid"]},
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": "no node has a GPU",
        "source": {"component": "scheduler"},
        "firstTimestamp": pod["metadata"]["creationTimestamp"],
        "lastTimestamp": pod["metadata"]["creationTimestamp"],
        "count": 1,
    }
    await api.created("/api/v1/namespaces/$ns/events", event)
    assert "no node has a GPU" in (await kubectl("describe", "pod", "p")).out
    assert "FailedScheduling" in (await kubectl("get", "events")).out


async def test_edit_writes_what_the_editor_left(widgets: SuiteApi, kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=_manifest())
    await kubectl("edit", "widget", "a", environment={"KUBE_EDITOR": "sed -i s/size:.3/size:\\ 7/"})
    assert (await widgets.get(f"{WIDGETS}/a")).body["spec"]["size"] == 7


@pytest.mark.parametrize(
    ("kind", "arguments", "path"),
    [
        ("secret", ("generic", "x", "--from-literal=a=b"), "/api/v1/namespaces/$ns/secrets/x"),
        ("serviceaccount", ("x",), "/api/v1/namespaces/$ns/serviceaccounts/x"),
        ("role", ("x", "--verb=get,list", "--resource=pods"), f"/apis/{RBAC}/namespaces/$ns/roles/x"),
        ("clusterrolebinding", ("x", "--clusterrole=y", "--user=me"), f"/apis/{RBAC}/clusterrolebindings/x"),
        (
            "deployment",
            ("x", "--image=y", "--port=80", "--replicas=2"),
            "/apis/apps/v1/namespaces/$ns/deployments/x",
        ),
        ("job", ("x", "--image=y", "--", "sleep", "1"), "/apis/batch/v1/namespaces/$ns/jobs/x"),
        ("priorityclass", ("x", "--value=7"), "/apis/scheduling.k8s.io/v1/priorityclasses/x"),
    ],
)
async def test_generators(api: SuiteApi, kubectl: Kubectl, kind: str, arguments: tuple[str, ...], path: str) -> None:
    await kubectl("create", kind, *arguments)
    made = (await api.get(path)).body
    first, *rest = arguments
    dry = yaml.safe_load((await kubectl("create", kind, first, "--dry-run=client", "-o", "yaml", *rest)).out)
    assert _contains(made, {name: value for name, value in dry.items() if name not in ("metadata", "status")})


def _contains(made: object, wanted: object) -> bool:
    """True if everything that is wanted is there; the server may have added defaults."""
    if isinstance(wanted, dict):
        return isinstance(made, dict) and all(_contains(made.get(key), value) for key, value in wanted.items() if value)
    if isinstance(wanted, list):
        return isinstance(made, list) and all(map(_contains, made, wanted))
    return made == wanted
