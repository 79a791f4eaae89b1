"""From an object to what is in its way: what each condition leads to, and which way is told. No cluster."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.asked import Objects
from support.builders import condition, make, waiting

import aim_cli
from aim_cli.cluster.refs import JsonObject, Ref
from aim_cli.output import safe
from aim_cli.why.blockers import PIPELINE, Search, blockers_of, causes
from aim_cli.why.command import answer, lines_of, why
from aim_cli.why.remedies import REMEDIES, remedy_of
from aim_domain import AIMService, labels
from aim_domain import kind_names as kinds
from aim_domain.kind_names import EVENT, GATEWAY, JOB, PERSISTENT_VOLUME_CLAIM, POD, KindName
from aim_domain.naming import claim_name, download_job_name, http_route_name, inference_service_name

TEAM = "team"


def obj(kind: KindName, name: str, *untrue: str, spec: JsonObject | None = None, **status: Any) -> JsonObject:
    """An object with conditions that are not true, beside the one that sums them up."""
    reported = [
        condition(type_, False, "NotYet", f"{type_} is not yet") for type_ in (*untrue, *("Ready",) * bool(untrue))
    ]
    status = {**status, "conditions": reported or [condition("Ready", True)]}
    return make(kind, name, namespace=TEAM if kind.namespaced else None, spec=spec or {}, status=status)


def leads(kind: KindName, known: JsonObject) -> list[object]:
    """Names of what its only condition points to; kinds of what has to be searched."""
    (only,) = blockers_of(kind, known)
    return [one.kind if isinstance(one, Search) else (one.kind, one.namespace, one.name) for one in only.towards]


SERVICE = {"model": {"name": "m"}}
RESOLVED = {"name": "t", "namespace": TEAM, "scope": "Namespace"}
OF_CLUSTER = {"name": "t", "scope": "Cluster"}
WORKLOAD = inference_service_name("chat", TEAM)


@pytest.mark.spec("FW-551")
@pytest.mark.parametrize(
    ("kind", "known", "towards"),
    [
        (
            kinds.AIM_SERVICE,
            obj(kinds.AIM_SERVICE, "chat", "ModelReady", spec=SERVICE),
            [kinds.AIM_MODEL, kinds.AIM_CLUSTER_MODEL],
        ),
        (
            kinds.AIM_SERVICE,
            obj(kinds.AIM_SERVICE, "chat", "ModelReady", spec={"model": {"custom": {"baseImage": "a/b:1"}}}),
            [kinds.AIM_MODEL],
        ),
        (
            kinds.AIM_SERVICE,
            obj(kinds.AIM_SERVICE, "chat", "TemplateReady", spec={"template": {"name": "t"}}),
            [kinds.AIM_SERVICE_TEMPLATE, kinds.AIM_CLUSTER_SERVICE_TEMPLATE],
        ),
        (
            kinds.AIM_SERVICE,
            obj(kinds.AIM_SERVICE, "chat", "ModelReady", resolvedModel=OF_CLUSTER),
            [(kinds.AIM_CLUSTER_MODEL, "", "t")],
        ),
        (
            kinds.AIM_SERVICE,
            obj(kinds.AIM_SERVICE, "chat", "TemplateReady", resolvedTemplate=RESOLVED),
            [(kinds.AIM_SERVICE_TEMPLATE, TEAM, "t")],
        ),
        (
            kinds.AIM_SERVICE,
            obj(kinds.AIM_SERVICE, "chat", "TemplateReady", resolvedTemplate=OF_CLUSTER),
            [(kinds.AIM_CLUSTER_SERVICE_TEMPLATE, "", "t")],
        ),
        (
            kinds.AIM_SERVICE,
            obj(kinds.AIM_SERVICE, "chat", "CacheReady", resolvedTemplate=RESOLVED),
            [kinds.AIM_TEMPLATE_CACHE],
        ),
        (
            kinds.AIM_SERVICE,
            obj(kinds.AIM_SERVICE, "chat", "InferenceServiceReady"),
            [(kinds.INFERENCE_SERVICE, TEAM, WORKLOAD)],
        ),
        (kinds.AIM_SERVICE, obj(kinds.AIM_SERVICE, "chat", "InferenceServicePodsReady"), [POD]),
        (
            kinds.AIM_SERVICE,
            obj(kinds.AIM_SERVICE, "chat", "HTTPRouteReady"),
            [(kinds.HTTP_ROUTE, TEAM, http_route_name("chat", TEAM))],
        ),
        (
            kinds.AIM_SERVICE,
            obj(
                kinds.AIM_SERVICE,
                "chat",
                "AdaptersReady",
                adapters=[
                    {"name": "a", "artifact": "chat-a", "state": "Failed"},
                    {"name": "b", "artifact": "chat-b", "state": "Ready"},
                ],
            ),
            [kinds.AIM_ARTIFACT, (kinds.AIM_ARTIFACT, TEAM, "chat-a")],
        ),
        (
            kinds.AIM_ARTIFACT,
            obj(kinds.AIM_ARTIFACT, "a", "CachePvcReady", spec={"type": "adapter", "disk": "d"}),
            [(kinds.AIM_ARTIFACT, TEAM, "d")],
        ),
        (kinds.AIM_SERVICE, obj(kinds.AIM_SERVICE, "chat", "RuntimeConfigReady"), []),
        (
            kinds.AIM_TEMPLATE_CACHE,
            obj(kinds.AIM_TEMPLATE_CACHE, "c", "ServiceTemplateReady", spec={"templateName": "t"}),
            [(kinds.AIM_SERVICE_TEMPLATE, TEAM, "t")],
        ),
        (
            kinds.AIM_TEMPLATE_CACHE,
            obj(
                kinds.AIM_TEMPLATE_CACHE,
                "c",
                "ArtifactsReady",
                artifacts={"a": {"name": "a", "status": "Ready"}, "b": {"name": "b", "status": "Failed"}},
            ),
            [(kinds.AIM_ARTIFACT, TEAM, "b")],
        ),
        (
            kinds.AIM_ARTIFACT,
            obj(kinds.AIM_ARTIFACT, "a", "CachePvcReady"),
            [(PERSISTENT_VOLUME_CLAIM, TEAM, claim_name("a", "aimartifact-a-uid"))],
        ),
        (kinds.AIM_ARTIFACT, obj(kinds.AIM_ARTIFACT, "a", "DownloadJobPodsReady"), [POD]),
        (
            kinds.AIM_CLUSTER_SERVICE_TEMPLATE,
            obj(kinds.AIM_CLUSTER_SERVICE_TEMPLATE, "t", "ClusterModelReady", spec={"modelName": "m"}),
            [(kinds.AIM_CLUSTER_MODEL, "", "m")],
        ),
        (
            kinds.AIM_CLUSTER_MODEL,
            obj(kinds.AIM_CLUSTER_MODEL, "m", "ClusterServiceTemplatesReady"),
            [kinds.AIM_CLUSTER_SERVICE_TEMPLATE],
        ),
        (
            kinds.AIM_SERVICE_TEMPLATE,
            obj(kinds.AIM_SERVICE_TEMPLATE, "t", "DiscoveryJobReady"),
            [JOB],
        ),
        (
            kinds.AIM_CLUSTER_SERVICE_TEMPLATE,
            obj(kinds.AIM_CLUSTER_SERVICE_TEMPLATE, "t", "DiscoveryPodsReady"),
            [POD],
        ),
        (
            kinds.AIM_MODEL,
            obj(kinds.AIM_MODEL, "m", "ServiceTemplatesReady"),
            [kinds.AIM_SERVICE_TEMPLATE],
        ),
    ],
)
def test_what_a_condition_is_about(kind: KindName, known: JsonObject, towards: list[object]) -> None:
    assert leads(kind, known) == towards


SOURCE = {"modelId": "Qwen/Qwen3-0.6B", "sourceUri": "hf://Qwen/Qwen3-0.6B"}
CUSTOM = {"baseImage": "a/b:1", "modelSources": [SOURCE]}


@pytest.mark.spec("FW-605", "FW-551")
def test_a_gpu_that_no_node_has_comes_before_the_route_that_has_no_backend() -> None:
    service = obj(kinds.AIM_SERVICE, "chat", "ModelReady", "HTTPRouteReady", spec={"model": {"custom": CUSTOM}})
    # The model may have been made for another service that is the same (SV-073).
    spec = {"image": "a/b:1", "custom": {"hardware": {}}, "modelSources": [{**SOURCE, "size": "1Gi"}]}
    model = obj(kinds.AIM_MODEL, "m", "ServiceTemplatesReady", spec=spec)
    other = obj(kinds.AIM_MODEL, "o", "ImageMetadataReady", spec={"image": "a/b:1"})
    template = obj(kinds.AIM_SERVICE_TEMPLATE, "t", spec={"modelName": "m"})
    template["status"]["conditions"] = [condition("GPUReady", False, "GPUNotAvailable", "no node has GPU MI308X")]
    route = make(kinds.HTTP_ROUTE, http_route_name("chat", TEAM), namespace=TEAM, spec={})
    no_backend = condition("ResolvedRefs", False, "BackendNotFound", "service chat-predictor not found")
    route["status"] = {"parents": [{"controllerName": "a/b", "conditions": [no_backend]}]}
    known = Objects(
        (kinds.AIM_SERVICE, service),
        (kinds.AIM_MODEL, model),
        (kinds.AIM_MODEL, other),
        (kinds.AIM_SERVICE_TEMPLATE, template),
        (kinds.HTTP_ROUTE, route),
    )
    assert why(known, Ref(kinds.AIM_SERVICE, TEAM, "chat")).ways[0][-1].ref.name == "t"


@pytest.mark.spec("FW-551")
def test_a_model_of_the_cluster_that_a_service_names_is_followed_and_none_is_missed() -> None:
    service = obj(kinds.AIM_SERVICE, "chat", "ModelReady", spec=SERVICE)
    model = obj(kinds.AIM_CLUSTER_MODEL, "m", "ImageMetadataReady")
    start, known = Ref(kinds.AIM_SERVICE, TEAM, "chat"), (kinds.AIM_SERVICE, service)
    assert [link.ref.kind for link in causes(Objects(known, (kinds.AIM_CLUSTER_MODEL, model)), start, service)[0]] == [
        kinds.AIM_SERVICE,
        kinds.AIM_CLUSTER_MODEL,
    ]
    assert [link.ref for link in causes(Objects(known), start, service)[0]] == [start]


@pytest.mark.spec("FW-551")
def test_what_a_write_was_answered_comes_before_what_does_not_exist_yet() -> None:
    artifact = obj(kinds.AIM_ARTIFACT, "weights", "CachePvcReady")
    words = 'create of PersistentVolumeClaim team/c failed: claims "c" is forbidden: exceeded quota: team, requested: 1'
    artifact["status"]["conditions"].append(condition("DependenciesReachable", False, "InfrastructureError", words))
    reported = lines(Objects((kinds.AIM_ARTIFACT, artifact)), kinds.AIM_ARTIFACT, "weights")
    assert words in reported[1]
    assert reported[2] == "do      raise the quota, or delete what counts: kubectl edit resourcequota team -n team"
    # A summary that repeats a component's words is left out as before.
    artifact["status"]["conditions"][-1]["message"] = "CachePvcReady is not yet"
    assert [one.condition for one in blockers_of(kinds.AIM_ARTIFACT, artifact)] == ["CachePvcReady"]


@pytest.mark.spec("FW-552")
def test_the_image_of_a_model_that_a_service_made_is_corrected_on_the_service() -> None:
    service = obj(kinds.AIM_SERVICE, "chat", "ModelReady", spec={"model": {"image": "a/b:9"}})
    model = obj(kinds.AIM_MODEL, "b-9", spec={"image": "a/b:9"})
    model["status"]["conditions"] = [condition("ImageMetadataReady", False, "ImageNotFound", "no such tag")]
    asked = Objects((kinds.AIM_SERVICE, service), (kinds.AIM_MODEL, model))
    assert "kubectl edit aimmodel b-9 -n team" in lines(asked, kinds.AIM_SERVICE, "chat")[2]
    model["metadata"]["labels"] = {labels.ORIGIN: labels.ORIGIN_AUTO_GENERATED}
    reported = lines(asked, kinds.AIM_SERVICE, "chat")
    assert reported[1].startswith("because AIMModel team/b-9")
    assert reported[2].endswith("as spec.model cannot be changed: kubectl delete aimservice chat -n team")


@pytest.mark.spec("FW-552")
def test_metrics_that_are_missing_lead_to_the_autoscaler_and_not_back_to_the_service() -> None:
    service = obj(kinds.AIM_SERVICE, "chat")
    service["status"]["conditions"] = [condition("HPAReady", False, "FailedGetExternalMetric", "no metric")]
    reported = lines(Objects((kinds.AIM_SERVICE, service)), kinds.AIM_SERVICE, "chat")
    assert "kubectl describe hpa -n team" in reported[2]


@pytest.mark.spec("FW-605")
def test_a_pull_secret_that_does_not_exist_comes_before_the_refusal_of_the_registry() -> None:
    waits = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "back-off"}}, "name": "main"}
    pod = make(POD, "chat-0", namespace=TEAM, spec={}, status={"phase": "Pending", "containerStatuses": [waits]})
    words = "Unable to retrieve some image pull secrets (ghcr)"
    events = [
        (EVENT, event(POD, "chat-0", "FailedToRetrieveImagePullSecret", words, "2026-11-27T10:00:00Z")),
        (EVENT, event(POD, "chat-0", "Failed", "no basic auth credentials", "2026-11-27T10:00:01Z")),
    ]
    reported = lines(Objects((POD, pod), *events), POD, "chat-0")
    assert reported[1].endswith(words)
    assert reported[2] == (
        "do      create it, or correct imagePullSecrets: kubectl create secret docker-registry ghcr -n team "
        "--docker-server=REGISTRY --docker-username=USER --docker-password=PASSWORD"
    )


@pytest.mark.spec("FW-552")
@pytest.mark.parametrize(
    ("reason", "message", "typed"),
    [
        (
            "SecretNotFound",
            "pull secret shared/login does not exist; create it or remove it from imagePullSecrets",
            "kubectl create secret docker-registry login -n shared --docker-server=REGISTRY",
        ),
        (
            "GPUNotSchedulable",
            "all of them are cordoned (node.kubernetes.io/unschedulable=:NoSchedule); uncordon a node",
            "kubectl uncordon NODE",
        ),
        ("GPUNotSchedulable", "taints that pods do not tolerate (a=b:NoSchedule)", "kubectl get nodes"),
    ],
)
def test_a_remedy_has_the_names_of_its_message(reason: str, message: str, typed: str) -> None:
    model = obj(kinds.AIM_MODEL, "b-9", spec={"image": "a/b:9"})
    model["status"]["conditions"] = [condition("ImageMetadataReady", False, reason, message)]
    reported = lines(Objects((kinds.AIM_MODEL, model)), kinds.AIM_MODEL, "b-9")
    assert typed in reported[2]


@pytest.mark.spec("FW-552")
@pytest.mark.parametrize("words", ["connect: connection refused", "lookup r.example: no such host", "i/o timeout"])
def test_a_registry_that_nodes_cannot_reach_is_not_a_wrong_image(words: str) -> None:
    waits = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": f"dial tcp: {words}"}}, "name": "main"}
    pod = make(POD, "chat-0", namespace=TEAM, spec={}, status={"phase": "Pending", "containerStatuses": [waits]})
    reported = lines(Objects((POD, pod)), POD, "chat-0")
    assert reported[2] == (
        "do      let the nodes reach the registry, it is tried again by itself; at once after: "
        "kubectl delete pod chat-0 -n team"
    )


@pytest.mark.spec("FW-551")
def test_searches_find_the_own_ones_only() -> None:
    (pods,) = blockers_of(kinds.AIM_SERVICE, obj(kinds.AIM_SERVICE, "chat", "InferenceServicePodsReady"))
    (search,) = pods.towards
    assert isinstance(search, Search)
    own = make(POD, "p", namespace=TEAM, labels={labels.KSERVE_INFERENCE_SERVICE: WORKLOAD})
    assert (search.matches(own), search.matches(make(POD, "q", namespace=TEAM))) == (True, False)


@pytest.mark.spec("FW-551")
def test_pods_and_volumes_say_themselves_what_they_wait_for() -> None:
    pulling = make(POD, "p", status={"phase": "Pending", "containerStatuses": [waiting("c", "ImagePullBackOff")]})
    assert [one.reason for one in blockers_of(POD, pulling)] == ["ImagePullBackOff"]
    unplaced = condition("PodScheduled", False, "Unschedulable", "no GPU")
    nowhere = make(POD, "p", status={"phase": "Pending", "conditions": [unplaced]})
    assert [(one.reason, one.message) for one in blockers_of(POD, nowhere)] == [("Unschedulable", "no GPU")]
    starting = make(POD, "p", status={"phase": "Pending", "containerStatuses": [waiting("c", "ContainerCreating")]})
    (started,) = blockers_of(POD, starting)
    assert (started.reason, started.status) == ("ContainerCreating", "Unknown")
    claim = make(PERSISTENT_VOLUME_CLAIM, "v", spec={"storageClassName": "slow"}, status={"phase": "Pending"})
    assert "its storage class is slow" in blockers_of(PERSISTENT_VOLUME_CLAIM, claim)[0].message
    bound = make(PERSISTENT_VOLUME_CLAIM, "v", spec={}, status={"phase": "Bound"})
    assert blockers_of(PERSISTENT_VOLUME_CLAIM, bound) == ()


@pytest.mark.spec("FW-551", "FW-552")
def test_the_longest_way_comes_first_and_ends_at_what_is_missing() -> None:
    service = obj(kinds.AIM_SERVICE, "chat", "CacheReady", "RuntimeConfigReady", resolvedTemplate=RESOLVED)
    cache = obj(kinds.AIM_TEMPLATE_CACHE, "c", "ServiceTemplateReady", spec={"templateName": "t"})
    known = Objects((kinds.AIM_TEMPLATE_CACHE, cache))
    ways = causes(known, Ref(kinds.AIM_SERVICE, TEAM, "chat"), service)
    assert [[link.ref.kind.kind for link in way] for way in ways] == [
        ["AIMService", "AIMTemplateCache", "AIMServiceTemplate"],
        ["AIMService"],
    ]
    assert ways[0][-1].blocker is None
    assert remedy_of(ways[0][-1]).startswith("create it, or correct who names it")


@pytest.mark.spec("FW-604")
def test_what_the_platform_has_not_made_yet_is_no_cause() -> None:
    image = {"model": {"image": "i"}}
    service = obj(kinds.AIM_SERVICE, "chat", "InferenceServiceReady", "ModelReady", spec=image)
    model = obj(kinds.AIM_MODEL, "m", "ImageMetadataReady", spec={"image": "i"})
    other = obj(kinds.AIM_MODEL, "n", "ImageMetadataReady", spec={"image": "j"})
    ways = causes(
        Objects((kinds.AIM_MODEL, model), (kinds.AIM_MODEL, other)), Ref(kinds.AIM_SERVICE, TEAM, "chat"), service
    )
    assert [[link.ref.name for link in way] for way in ways] == [["chat", "m"], ["chat"]]
    assert all(link.blocker is not None for way in ways for link in way)


@pytest.mark.spec("FW-551", "FW-553")
def test_what_is_unknown_is_no_lie_and_what_is_only_a_note_is_no_cause() -> None:
    unknown = obj(kinds.AIM_SERVICE, "chat", "CacheReady")
    unknown["status"]["conditions"][0]["status"] = "Unknown"
    (reported,) = blockers_of(kinds.AIM_SERVICE, unknown)
    assert reported.status == "Unknown"
    conditions = [
        condition("PredictorReady", False),
        condition("Stopped", False),
        {**condition("RoutesReady", False), "severity": "Info"},
    ]
    workload = make(kinds.INFERENCE_SERVICE, "w", spec={}, status={"conditions": conditions})
    assert [one.condition for one in blockers_of(kinds.INFERENCE_SERVICE, workload)] == ["PredictorReady"]


@pytest.mark.spec("FW-551")
def test_a_ring_of_objects_is_followed_once() -> None:
    model = obj(kinds.AIM_MODEL, "m", "ServiceTemplatesReady")
    template = obj(kinds.AIM_SERVICE_TEMPLATE, "t", "ModelReady", spec={"modelName": "m"})
    known = Objects((kinds.AIM_MODEL, model), (kinds.AIM_SERVICE_TEMPLATE, template))
    (way,) = causes(known, Ref(kinds.AIM_MODEL, TEAM, "m"), model)
    assert [link.ref.name for link in way] == ["m", "t"]


@pytest.mark.spec("FW-551")
def test_what_is_ready_has_nothing_in_its_way_and_what_is_new_says_so() -> None:
    assert blockers_of(kinds.AIM_SERVICE, obj(kinds.AIM_SERVICE, "chat")) == ()
    (new,) = blockers_of(kinds.AIM_SERVICE, make(kinds.AIM_SERVICE, "chat", spec={}))
    assert new.reason == "NoStatus"


@pytest.mark.spec("FW-554")
def test_nothing_of_a_user_reaches_the_terminal_as_a_command() -> None:
    assert safe("a\x1b[2Jb\r\x07\u202ec[red]") == "a [2Jb   c\\[red]"


@pytest.mark.spec("FW-554")
def test_every_line_of_users_words_goes_through_one_function() -> None:
    folder = Path(aim_cli.__file__).parent
    users = {
        file.relative_to(folder).as_posix() for file in folder.rglob("*.py") if "escape(" in file.read_text("utf-8")
    }
    assert users == {"output.py", "log/report.py"}, "one for the terminal, one for HTML"


@pytest.mark.spec("FW-555")
def test_help_imports_none_of_the_platform() -> None:
    """A process of its own: what others have imported here would count."""
    program = (
        "import sys; from aim_cli.__main__ import app; "
        "heavy = ('aim_domain', 'urllib3', 'asyncio', 'controller_runtime', 'pydantic', 'nats', 'rich.console'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def event(about: KindName, name: str, reason: str, message: str, at: str, *, type_: str = "Warning") -> JsonObject:
    return make(
        EVENT,
        f"{name}.{reason}",
        namespace=TEAM,
        type=type_,
        reason=reason,
        message=message,
        involvedObject={"kind": about.kind, "namespace": TEAM, "name": name, "uid": f"{about.singular}-{name}-uid"},
        lastTimestamp=at,
        source={"component": "scheduler"},
    )


def lines(cluster: Objects, kind: KindName, name: str, namespace: str = TEAM) -> list[str]:
    """What the command tells, without ages."""
    reported = why(cluster, Ref(kind, namespace, name))
    return [line.partition(" (for ")[0] for line in lines_of(reported, datetime(2026, 1, 1, tzinfo=UTC))]


@pytest.mark.spec("FW-604")
def test_from_a_template_over_its_discovery_job_and_its_pod_to_what_happened_last() -> None:
    job_labels = {labels.TEMPLATE: "t", labels.APP_COMPONENT: labels.APP_COMPONENT_DISCOVERY}
    job = make(JOB, "discover-t", namespace=TEAM, labels=job_labels, spec={}, status={"active": 1})
    pod = make(
        POD,
        "discover-t-x",
        namespace=TEAM,
        labels={labels.JOB_NAME: "discover-t"},
        spec={},
        status={"phase": "Pending", "containerStatuses": [waiting("c", "ContainerCreating")]},
    )
    known = Objects(
        (kinds.AIM_SERVICE_TEMPLATE, obj(kinds.AIM_SERVICE_TEMPLATE, "t", "DiscoveryJobReady")),
        (JOB, job),
        (POD, pod),
        (EVENT, event(POD, "discover-t-x", "FailedScheduling", "no node", "2025-12-31T00:00:00Z")),
        (EVENT, event(POD, "discover-t-x", "FailedMount", "no such secret", "2025-12-31T01:00:00Z")),
        (EVENT, event(POD, "discover-t-x", "Scheduled", "on a node", "2025-12-31T02:00:00Z", type_="Normal")),
        (EVENT, event(POD, "another", "FailedMount", "not ours", "2025-12-31T03:00:00Z")),
    )
    reported = lines(known, kinds.AIM_SERVICE_TEMPLATE, "t")
    assert reported[1:] == [
        "because Event team/discover-t-x.FailedMount: FailedMount: no such secret",
        "do      see whether volume and node fit: kubectl describe pod discover-t-x -n team",
        "",
        "so      Pod team/discover-t-x: ContainerCreating: container c is being started (says kubelet)",
        "so      Job team/discover-t: Active: it has not ended yet",
        "so      AIMServiceTemplate team/t: DiscoveryJobReady=False NotYet: DiscoveryJobReady is not yet",
    ]


@pytest.mark.spec("FW-604")
def test_a_job_that_failed_says_so_and_one_that_is_complete_is_in_nobodys_way() -> None:
    failed = {**condition("Failed", True, "DeadlineExceeded", "too slow"), "status": "True"}
    (one,) = blockers_of(JOB, make(JOB, "j", spec={}, status={"conditions": [failed]}))
    assert (one.reason, one.message) == ("DeadlineExceeded", "too slow")
    assert blockers_of(JOB, make(JOB, "j", spec={}, status={"conditions": [condition("Complete", True)]})) == ()


BY_DEFAULT = {
    "status": "Unknown", "reason": "Pending", "message": "Waiting for controller",
    "lastTransitionTime": "1970-01-01T00:00:00Z",
}  # fmt: skip
"""What the definition of Gateways makes of a status that no controller has written."""


@pytest.mark.spec("FW-604")
@pytest.mark.parametrize(
    ("gateway", "cause"),
    [
        (None, "because Gateway infra/g: does not exist"),
        ({}, "because Gateway infra/g: NoController: no controller has taken it in; its class is nice"),
        (
            {"conditions": [BY_DEFAULT | {"type": one} for one in ("Accepted", "Programmed")]},
            "because Gateway infra/g: NoController: no controller has taken it in; its class is nice",
        ),
        (
            {"conditions": [condition("Programmed", False, "AddressNotAssigned", "no address")]},
            "because Gateway infra/g: Programmed=False AddressNotAssigned: no address",
        ),
    ],
)
def test_from_a_route_to_its_gateway(gateway: JsonObject | None, cause: str) -> None:
    name = http_route_name("chat", TEAM)
    parents = {"parentRefs": [{"name": "g", "namespace": "infra"}]}
    known = Objects(
        (kinds.AIM_SERVICE, obj(kinds.AIM_SERVICE, "chat", "HTTPRouteReady")),
        (kinds.HTTP_ROUTE, make(kinds.HTTP_ROUTE, name, namespace=TEAM, spec=parents)),
    )
    if gateway is not None:
        spec = {"gatewayClassName": "nice"}
        one = make(GATEWAY, "g", namespace="infra", spec=spec, status=gateway)
        known.objects[Ref(GATEWAY, "infra", "g")] = one
    reported = lines(known, kinds.AIM_SERVICE, "chat")
    assert reported[1] == cause
    assert [line.split()[1] for line in reported[2:] if line.startswith("so")] == ["HTTPRoute", "AIMService"]


@pytest.mark.spec("FW-604")
def test_what_may_not_be_read_is_not_reported_as_missing() -> None:
    service = obj(kinds.AIM_SERVICE, "chat", "InferenceServiceReady")
    known = Objects((kinds.AIM_SERVICE, service))
    known.unasked[f"InferenceService {TEAM}/{WORKLOAD}"] = "forbidden"
    reported = why(known, Ref(kinds.AIM_SERVICE, TEAM, "chat"))
    assert [link.ref.name for link in reported.links] == ["chat"]
    assert answer([reported], known, datetime.now(UTC)).remarks == (
        f"not known: InferenceService {TEAM}/{WORKLOAD}: forbidden",
    )


@pytest.mark.spec("FW-604")
def test_what_else_is_in_the_way_is_named_below_the_shortest_chain() -> None:
    service = obj(kinds.AIM_SERVICE, "chat", "CacheReady", "HTTPRouteReady")
    reported = lines(Objects((kinds.AIM_SERVICE, service)), kinds.AIM_SERVICE, "chat")
    assert reported[-1] == "also    AIMService team/chat: HTTPRouteReady=False NotYet: HTTPRouteReady is not yet"


def claim(name: str, artifact: str, size: str) -> JsonObject:
    of = {"kind": "AIMArtifact", "name": artifact, "uid": f"aimartifact-{artifact}-uid", "apiVersion": "v"}
    spec = {"resources": {"requests": {"storage": size}}}
    return make(
        PERSISTENT_VOLUME_CLAIM, name, namespace=TEAM, owners=[of], labels={labels.CACHE_NAME: artifact}, spec=spec
    )


@pytest.mark.spec("FW-605")
def test_who_holds_the_storage_that_an_artifact_waits_for() -> None:
    blocked = obj(kinds.AIM_ARTIFACT, "a", "StorageQuotaReady", spec={})
    blocked["status"]["conditions"][0]["reason"] = "NamespaceQuotaExceeded"
    mounts = {"volumes": [{"persistentVolumeClaim": {"claimName": "used"}}]}
    known = Objects(
        (kinds.AIM_ARTIFACT, blocked),
        (kinds.AIM_ARTIFACT, make(kinds.AIM_ARTIFACT, "small", namespace=TEAM, spec={"retentionPriority": 3})),
        (PERSISTENT_VOLUME_CLAIM, claim("used", "large", "80Gi")),
        (PERSISTENT_VOLUME_CLAIM, claim("free", "small", "1Gi")),
        (PERSISTENT_VOLUME_CLAIM, make(PERSISTENT_VOLUME_CLAIM, "foreign", namespace=TEAM, spec={})),
        (POD, make(POD, "p", namespace=TEAM, spec=mounts, status={"phase": "Running"})),
    )
    reported = [line for line in lines(known, kinds.AIM_ARTIFACT, "a") if line.startswith("held")]
    assert reported == [
        "held    80Gi by AIMArtifact team/large (in use by pod p)",
        "held    1Gi by AIMArtifact team/small (may be evicted)",
    ]


@pytest.mark.spec("FW-604")
def test_a_pause_and_a_deletion_are_in_the_way_of_what_is_not_ready() -> None:
    paused = obj(kinds.AIM_SERVICE, "chat", "CacheReady")
    paused["metadata"]["annotations"] = {labels.ANNOTATION_PAUSED: "true"}
    assert [one.reason for one in blockers_of(kinds.AIM_SERVICE, paused)] == ["Paused", "NotYet"]
    assert f" {labels.ANNOTATION_PAUSED}-" in REMEDIES["Paused"]
    going = obj(kinds.AIM_SERVICE, "chat")
    going["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}
    (reported,) = blockers_of(kinds.AIM_SERVICE, going)
    assert (reported.reason, reported.message) == ("Terminating", "it is being deleted and waits for a/b")
    well = obj(kinds.AIM_SERVICE, "chat")
    well["metadata"]["annotations"] = {labels.ANNOTATION_PAUSED: "true"}
    assert blockers_of(kinds.AIM_SERVICE, well) == ()


@pytest.mark.spec("FW-605")
def test_the_end_of_a_job_is_no_cause_of_what_its_pod_ended_with() -> None:
    artifact = obj(kinds.AIM_ARTIFACT, "full")
    failed = condition("DownloadJobReady", False, "JobFailed", "the Job has failed")
    full = condition("DownloadJobPodsReady", False, "StorageFull", "1048586 bytes are missing")
    artifact["status"] = {"status": "Failed", "conditions": [failed, full]}
    name = download_job_name("full", artifact["metadata"]["uid"])
    ended = event(JOB, name, "PodFailurePolicy", "container failed with exit code 12 matching FailJob rule", LATER)
    reported = lines(Objects((kinds.AIM_ARTIFACT, artifact), (EVENT, ended)), kinds.AIM_ARTIFACT, "full")
    assert "StorageFull" in reported[1]
    assert reported[-1].startswith("also    Event")


@pytest.mark.spec("FW-605")
@pytest.mark.parametrize(
    "scheduler",
    [
        "pod has unbound immediate PersistentVolumeClaims",
        "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind",
    ],
)
def test_a_claim_without_a_volume_is_the_cause_of_a_pod_that_waits_for_it(scheduler: str) -> None:
    artifact = obj(kinds.AIM_ARTIFACT, "nosc", "CachePvcReady", "DownloadJobPodsReady")
    claim = make(
        PERSISTENT_VOLUME_CLAIM, claim_name("nosc", artifact["metadata"]["uid"]), namespace=TEAM, spec={}, status={}
    )
    pod = make(
        POD, "download-x", namespace=TEAM, labels={labels.CACHE_NAME: "nosc"}, spec={}, status={"phase": "Pending"}
    )
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}
    pod["status"]["conditions"] = [waits]
    known = Objects(
        (kinds.AIM_ARTIFACT, artifact),
        (POD, pod),
        (PERSISTENT_VOLUME_CLAIM, claim),
        (
            EVENT,
            event(POD, "download-x", "FailedScheduling", scheduler, LATER),
        ),
        (
            EVENT,
            event(
                PERSISTENT_VOLUME_CLAIM,
                claim["metadata"]["name"],
                "ProvisioningFailed",
                'storageclass "fast-typo" not found',
                LATER,
            ),
        ),
    )
    reported = lines(known, kinds.AIM_ARTIFACT, "nosc")
    assert reported[1].endswith('ProvisioningFailed: storageclass "fast-typo" not found')
    assert "storage class" in reported[2]


@pytest.mark.spec("FW-605")
def test_the_job_whose_pods_are_refused_is_named_with_the_words_of_the_quota() -> None:
    artifact = obj(kinds.AIM_ARTIFACT, "w", "DownloadJobReady", "DownloadJobPodsReady")
    job = download_job_name("w", artifact["metadata"]["uid"])
    known = Objects(
        (kinds.AIM_ARTIFACT, artifact),
        (EVENT, event(JOB, job, "FailedCreate", "failed quota: team: must specify limits.cpu", LATER)),
    )
    reported = lines(known, kinds.AIM_ARTIFACT, "w")
    assert reported[1].startswith(f"because Event {TEAM}/{job}.FailedCreate: FailedCreate: failed quota")
    assert "resourcequota" in reported[2]


@pytest.mark.spec("FW-605")
@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("had untolerated taint {a: b}", "tolerations"),
        ("Insufficient amd.com/gpu", "deploymentStrategy.type"),
        ("1 node(s) had untolerated taint {a: b}, 3 Insufficient amd.com/gpu", "free a GPU"),
        ("1 node(s) had untolerated taint {a: b}, 3 Insufficient memory", "free what"),
        ("1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }", "free what"),
        ("x", "nodes"),
    ],
)
def test_what_to_do_about_a_pod_without_a_node_depends_on_the_scheduler_s_words(words: str, remedy: str) -> None:
    pod = make(POD, "p", namespace=TEAM, spec={}, status={"phase": "Pending"})
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
    pod["status"]["conditions"] = [waits]
    known = Objects((POD, pod), (EVENT, event(POD, "p", "FailedScheduling", f"0/1 nodes: {words}", LATER)))
    assert remedy in lines(known, POD, "p")[2]


@pytest.mark.spec("FW-605", "FW-860")
def test_a_lost_node_comes_before_what_follows_from_it() -> None:
    service = obj(kinds.AIM_SERVICE, "chat", "InferenceServiceReady", "InferenceServicePodsReady", spec=SERVICE)
    forsaken = [
        {"type": "Ready", "status": "False", "lastTransitionTime": LATER},
        {"type": "ContainersReady", "status": "True", "lastTransitionTime": LATER},
    ]
    pod = make(
        POD,
        "chat-x",
        namespace=TEAM,
        labels={labels.KSERVE_INFERENCE_SERVICE: WORKLOAD},
        spec={"nodeName": "gpu-1"},
        status={"phase": "Running", "conditions": forsaken},
    )
    workload = obj(kinds.INFERENCE_SERVICE, WORKLOAD, "PredictorReady")
    reported = lines(
        Objects((kinds.AIM_SERVICE, service), (kinds.INFERENCE_SERVICE, workload), (POD, pod)),
        kinds.AIM_SERVICE,
        "chat",
    )
    assert reported[1].startswith(
        f"because Pod {TEAM}/chat-x: Ready=False NodeNotReady: unreachable: its node gpu-1 has stopped reporting"
    )
    assert "kubectl get nodes" in reported[2]
    forsaken[0]["reason"] = "ContainersNotReady"
    assert [(one.reason, one.message) for one in blockers_of(POD, pod)] == [("PodsStarting", "running but not ready")]
    forsaken[0]["status"] = "True"
    assert blockers_of(POD, pod) == ()


LATER = "2025-12-31T00:00:00Z"


@pytest.mark.spec("FW-551")
def test_the_condition_that_ready_repeats_is_named_first() -> None:
    conditions = [
        condition("DiscoveryJobReady", False, "JobNotCreated", "No discovery Job has been created yet"),
        condition("GPUReady", False, "GPUNotAvailable", "no node has GPU MI355X; available: MI300X"),
        condition("Ready", False, "GPUNotAvailable", "no node has GPU MI355X; available: MI300X"),
    ]
    template = make(kinds.AIM_SERVICE_TEMPLATE, "tpl", namespace="team", spec={}, status={"conditions": conditions})
    reported = blockers_of(kinds.AIM_SERVICE_TEMPLATE, template)
    assert [one.condition for one in reported] == ["GPUReady", "DiscoveryJobReady"]


@pytest.mark.spec("FW-080", "FW-552")
def test_ways_are_ordered_as_the_components_of_a_service() -> None:
    assert tuple(one.condition for one in AIMService.components) == PIPELINE


@pytest.mark.spec("FW-552")
def test_only_what_is_made_again_is_deleted_without_a_word() -> None:
    loses = [reason for reason, text in REMEDIES.items() if "kubectl delete {what}" in text]
    assert [reason for reason in loses if "create it again" not in REMEDIES[reason]] == []


@pytest.mark.spec("FW-141", "FW-552")
@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        (waiting("c", "CrashLoopBackOff", restarts=4, last_exit=1), "CrashLoopBackOff", "4 restarts, last exit code 1"),
        (waiting("c", "ImagePullBackOff", "a/b:1: not found"), "ImageNotFound", "a/b:1: not found"),
        (waiting("c", "ErrImagePull", "a/b:1: 401 Unauthorized"), "ImagePullAuthFailure", "401 Unauthorized"),
        (waiting("c", "CreateContainerConfigError", 'secret "hub" not found'), "CreateContainerConfigError", "hub"),
    ],
)
def test_a_pod_is_judged_as_the_services_judge_it(status: JsonObject, reason: str, words: str) -> None:
    pod = make(POD, "p", namespace=TEAM, status={"phase": "Pending", "containerStatuses": [status]})
    backing_off = event(POD, "p", "BackOff", "Back-off restarting failed container", LATER)
    (only,) = blockers_of(POD, pod)
    assert (only.reason, words in only.message) == (reason, True)
    followed = lines(Objects((POD, pod), (EVENT, backing_off)), POD, "p")
    assert followed[1].startswith(f"because Pod {TEAM}/p: {reason}")


@pytest.mark.spec("FW-141", "FW-552")
def test_a_pod_that_waits_for_a_volume_leads_to_its_claim() -> None:
    unbound = condition("PodScheduled", False, "Unschedulable", "pod has unbound immediate PersistentVolumeClaims")
    spec = {"volumes": [{"name": "w", "persistentVolumeClaim": {"claimName": "weights"}}]}
    pod = make(POD, "p", namespace=TEAM, spec=spec, status={"phase": "Pending", "conditions": [unbound]})
    claim = make(PERSISTENT_VOLUME_CLAIM, "weights", namespace=TEAM, spec={}, status={"phase": "Pending"})
    full = event(PERSISTENT_VOLUME_CLAIM, "weights", "ProvisioningFailed", "no space left in pool", LATER)
    reported = lines(Objects((POD, pod), (PERSISTENT_VOLUME_CLAIM, claim), (EVENT, full)), POD, "p")
    assert "ProvisioningFailed: no space left in pool" in reported[1]
    assert "free space in the pool" in reported[2]


@pytest.mark.spec("FW-552")
@pytest.mark.parametrize(("made_by", "deletes"), [("aim-template-cache-controller", True), ("", False)])
def test_only_an_artifact_that_is_made_again_is_deleted_for_its_storage_class(made_by: str, deletes: bool) -> None:
    artifact = obj(kinds.AIM_ARTIFACT, "weights", "CachePvcReady")
    artifact["metadata"]["labels"] = {labels.APP_MANAGED_BY: made_by}
    name = claim_name("weights", artifact["metadata"]["uid"])
    claim = make(PERSISTENT_VOLUME_CLAIM, name, namespace=TEAM, spec={}, status={"phase": "Pending"})
    words = 'storageclass.storage.k8s.io "typo" not found'
    absent = event(PERSISTENT_VOLUME_CLAIM, name, "ProvisioningFailed", words, LATER)
    cluster = Objects((kinds.AIM_ARTIFACT, artifact), (PERSISTENT_VOLUME_CLAIM, claim), (EVENT, absent))
    reported = lines(cluster, kinds.AIM_ARTIFACT, "weights")
    assert words in reported[1]
    assert "kubectl get storageclass" in reported[2]
    assert ("kubectl delete aimartifact weights -n team" in reported[2]) is deletes


@pytest.mark.spec("FW-552", "FW-080")
def test_what_is_worked_on_first_is_named_first_while_nothing_has_failed() -> None:
    conditions = [
        condition("HTTPRouteReady", False, "BackendNotFound", "no predictor yet"),
        condition("InferenceServiceReady", False, "CreatingRuntime", "not there yet"),
        condition("CacheReady", False, "CacheCreating", "is being filled"),
        condition("Ready", False, "Progressing", "Waiting for Cache, InferenceService: is being filled"),
    ]
    service = make(kinds.AIM_SERVICE, "chat", namespace=TEAM, spec=SERVICE, status={"conditions": conditions})
    assert [one.condition for one in blockers_of(kinds.AIM_SERVICE, service)] == [
        "CacheReady",
        "InferenceServiceReady",
        "HTTPRouteReady",
    ]


@pytest.mark.spec("FW-552")
def test_a_pod_that_a_queue_gates_and_one_that_has_just_ended_say_so() -> None:
    gated = condition("PodScheduled", False, "SchedulingGated", "Scheduling is blocked due to scheduling gates")
    waits = make(POD, "p", namespace=TEAM, status={"phase": "Pending", "conditions": [gated]})
    assert [(one.reason, one.message) for one in blockers_of(POD, waits)] == [(gated["reason"], gated["message"])]
    killed = {"name": "c", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
    ended = make(POD, "p", namespace=TEAM, status={"phase": "Running", "containerStatuses": [killed]})
    assert [one.reason for one in blockers_of(POD, ended)] == ["OOMKilled"]
