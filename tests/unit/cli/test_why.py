"""From an object to what is in its way: what each condition leads to, and which way is told. No cluster."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.builders import condition, make, waiting

import aim_cli
from aim_cli.output import safe
from aim_cli.why.blockers import Ref, Search, blockers_of
from aim_cli.why.chain import causes
from aim_cli.why.remedies import remedy_of
from aim_domain import kinds, labels
from aim_domain.naming import claim_name, http_route_name, inference_service_name
from controller_runtime import JsonObject, Kind
from controller_runtime.kinds import PERSISTENT_VOLUME_CLAIM, POD

TEAM = "team"


def obj(kind: Kind[Any], name: str, *untrue: str, spec: JsonObject | None = None, **status: Any) -> JsonObject:
    """An object with conditions that are not true, beside the one that sums them up."""
    told = [condition(type_, False, "NotYet", f"{type_} is not yet") for type_ in (*untrue, *("Ready",) * bool(untrue))]
    status = {**status, "conditions": told or [condition("Ready", True)]}
    return make(kind, name, namespace=TEAM if kind.namespaced else None, spec=spec or {}, status=status)


def leads(kind: Kind[Any], known: JsonObject) -> list[object]:
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
        (kinds.AIM_SERVICE, obj(kinds.AIM_SERVICE, "chat", "ModelReady", spec=SERVICE), [(kinds.AIM_MODEL, TEAM, "m")]),
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
            obj(kinds.AIM_CLUSTER_SERVICE_TEMPLATE, "t", "ModelReady", spec={"modelName": "m"}),
            [(kinds.AIM_CLUSTER_MODEL, "", "m")],
        ),
        (
            kinds.AIM_MODEL,
            obj(kinds.AIM_MODEL, "m", "ServiceTemplatesReady"),
            [kinds.AIM_SERVICE_TEMPLATE],
        ),
    ],
)
def test_what_a_condition_is_about(kind: Kind[Any], known: JsonObject, towards: list[object]) -> None:
    assert leads(kind, known) == towards


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
    assert blockers_of(POD, starting) == ()
    claim = make(PERSISTENT_VOLUME_CLAIM, "v", spec={"storageClassName": "slow"}, status={"phase": "Pending"})
    assert "its storage class is slow" in blockers_of(PERSISTENT_VOLUME_CLAIM, claim)[0].message
    bound = make(PERSISTENT_VOLUME_CLAIM, "v", spec={}, status={"phase": "Bound"})
    assert blockers_of(PERSISTENT_VOLUME_CLAIM, bound) == ()


class Objects:
    """A cluster of these objects."""

    def __init__(self, *objects: tuple[Kind[Any], JsonObject]) -> None:
        self.objects = {
            Ref(kind, one["metadata"].get("namespace") or "", one["metadata"]["name"]): one for kind, one in objects
        }

    async def find(self, ref: Ref) -> JsonObject | None:
        return self.objects.get(ref)

    async def search(self, kind: Kind[Any], namespace: str) -> Iterable[JsonObject]:
        return [one for ref, one in self.objects.items() if (ref.kind, ref.namespace) == (kind, namespace)]


@pytest.mark.spec("FW-551", "FW-552")
async def test_the_longest_way_comes_first_and_ends_at_what_is_missing() -> None:
    service = obj(kinds.AIM_SERVICE, "chat", "CacheReady", "RuntimeConfigReady", resolvedTemplate=RESOLVED)
    listed = {"a": {"name": "a", "status": "Progressing"}}
    cache = obj(kinds.AIM_TEMPLATE_CACHE, "c", "ArtifactsReady", spec={"templateName": "t"}, artifacts=listed)
    artifact = obj(kinds.AIM_ARTIFACT, "a", "CachePvcReady")
    known = Objects((kinds.AIM_TEMPLATE_CACHE, cache), (kinds.AIM_ARTIFACT, artifact))
    ways = await causes(known, Ref(kinds.AIM_SERVICE, TEAM, "chat"), service)
    assert [[link.ref.kind.kind for link in way] for way in ways] == [
        ["AIMService", "AIMTemplateCache", "AIMArtifact", "PersistentVolumeClaim"],
        ["AIMService"],
    ]
    assert ways[0][-1].blocker is None
    assert remedy_of(ways[0][-1]).startswith("create it, or correct who names it")


@pytest.mark.spec("FW-551", "FW-553")
def test_what_is_unknown_is_no_lie_and_what_is_only_a_note_is_no_cause() -> None:
    unknown = obj(kinds.AIM_SERVICE, "chat", "CacheReady")
    unknown["status"]["conditions"][0]["status"] = "Unknown"
    (told,) = blockers_of(kinds.AIM_SERVICE, unknown)
    assert told.status == "Unknown"
    conditions = [
        condition("PredictorReady", False),
        condition("Stopped", False),
        {**condition("RoutesReady", False), "severity": "Info"},
    ]
    workload = make(kinds.INFERENCE_SERVICE, "w", spec={}, status={"conditions": conditions})
    assert [one.condition for one in blockers_of(kinds.INFERENCE_SERVICE, workload)] == ["PredictorReady"]


@pytest.mark.spec("FW-551")
async def test_a_ring_of_objects_is_followed_once() -> None:
    model = obj(kinds.AIM_MODEL, "m", "ServiceTemplatesReady")
    template = obj(kinds.AIM_SERVICE_TEMPLATE, "t", "ModelReady", spec={"modelName": "m"})
    known = Objects((kinds.AIM_MODEL, model), (kinds.AIM_SERVICE_TEMPLATE, template))
    (way,) = await causes(known, Ref(kinds.AIM_MODEL, TEAM, "m"), model)
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
    assert users == {"output.py"}


@pytest.mark.spec("FW-555")
def test_help_imports_none_of_the_platform() -> None:
    """A process of its own: what others have imported here would count."""
    program = (
        "import sys; from aim_cli.__main__ import app; "
        "heavy = ('aim_domain', 'controller_runtime', 'pydantic', 'nats', 'rich.console'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
