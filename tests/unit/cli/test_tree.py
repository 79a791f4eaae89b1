"""Everything that belongs to an object, in which state. No cluster."""

import pytest
from support.asked import Objects
from support.builders import condition, make, owner

from aim_cli.cluster.refs import JsonObject, Ref
from aim_cli.cluster.states import Weight, state_of, weight_of
from aim_cli.errors import Exit
from aim_cli.objects.tree import answer, dot, lines_of, tree
from aim_domain import labels
from aim_domain.kind_names import (
    AIM_ARTIFACT,
    AIM_MODEL,
    AIM_SERVICE,
    AIM_TEMPLATE_CACHE,
    GATEWAY,
    HTTP_ROUTE,
    INFERENCE_SERVICE,
    JOB,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    KindName,
)

TEAM = "team"


def small_cache() -> Objects:
    resolved = {
        "resolvedModel": {"kind": "aim.eai.amd.com/v1alpha1/AIMModel", "name": "m", "namespace": TEAM},
        "cache": {"templateCacheRef": {"kind": "x/AIMTemplateCache", "name": "c", "namespace": TEAM}},
        "status": "Starting",
        "conditions": [condition("CacheReady", False, "CacheCreating")],
    }
    service = make(AIM_SERVICE, "chat", namespace=TEAM, spec={}, status=resolved)
    workload = make(INFERENCE_SERVICE, "chat-1", namespace=TEAM, owners=[owner(service)], status={})
    pod_labels = {labels.KSERVE_INFERENCE_SERVICE: "chat-1"}
    listed = {"artifacts": {"u": {"name": "a"}, "v": {"name": "shared"}}, "status": "Progressing", "conditions": []}
    cache = make(AIM_TEMPLATE_CACHE, "c", namespace=TEAM, owners=[owner(service)], spec={}, status=listed)
    artifact = make(AIM_ARTIFACT, "a", namespace=TEAM, owners=[owner(cache)], status={"status": "Ready"})
    parents = {"parentRefs": [{"name": "g", "namespace": "infra"}]}
    used = make(AIM_ARTIFACT, "shared", namespace=TEAM, status={"status": "Ready"})
    return Objects(
        (AIM_ARTIFACT, used),
        (AIM_SERVICE, service),
        (INFERENCE_SERVICE, workload),
        (POD, make(POD, "p", namespace=TEAM, labels=pod_labels, spec={}, status={"phase": "Running"})),
        (POD, make(POD, "foreign", namespace=TEAM, spec={}, status={"phase": "Running"})),
        (AIM_TEMPLATE_CACHE, cache),
        (AIM_ARTIFACT, artifact),
        (
            PERSISTENT_VOLUME_CLAIM,
            make(
                PERSISTENT_VOLUME_CLAIM,
                "v",
                namespace=TEAM,
                owners=[owner(artifact)],
                spec={},
                status={"phase": "Bound"},
            ),
        ),
        (HTTP_ROUTE, make(HTTP_ROUTE, "r", namespace=TEAM, owners=[owner(service)], spec=parents)),
    )


@pytest.mark.spec("FW-607")
def test_what_was_made_and_what_is_used_each_once_with_states() -> None:
    node = tree(small_cache(), Ref(AIM_SERVICE, TEAM, "chat"))
    assert node is not None
    assert list(lines_of(node)) == [
        "AIMService team/chat  Starting (CacheCreating)",
        "├─ uses AIMModel team/m  missing",
        "├─ AIMTemplateCache team/c  Progressing (NoStatus)",
        "│  ├─ uses AIMArtifact team/shared  Ready",
        "│  └─ AIMArtifact team/a  Ready",
        "│     └─ PersistentVolumeClaim team/v  Bound",
        "├─ InferenceService team/chat-1",
        "│  └─ Pod team/p  Running",
        "└─ HTTPRoute team/r  NotReady (NoController)",
        "   └─ uses Gateway infra/g  missing",
    ]


@pytest.mark.spec("FW-607")
def test_a_graph_names_each_object_once_and_quotes_what_users_wrote() -> None:
    service = make(AIM_SERVICE, "chat", namespace=TEAM, spec={}, status={"status": 'a"]; evil ["\\'})
    node = tree(Objects((AIM_SERVICE, service)), Ref(AIM_SERVICE, TEAM, "chat"))
    assert node is not None
    (line,) = [line for line in dot(node).splitlines() if "evil" in line]
    assert r"a\"]; evil [\"\\" in line
    whole = tree(small_cache(), Ref(AIM_SERVICE, TEAM, "chat"))
    assert whole is not None
    graph = dot(whole).splitlines()
    assert sum(line.startswith('  "AIMTemplateCache team/c" [') for line in graph) == 1
    assert '  "HTTPRoute team/r" -> "Gateway infra/g" [style=dashed];' in graph


@pytest.mark.spec("FW-607")
def test_what_does_not_exist_has_no_tree() -> None:
    root = Ref(AIM_SERVICE, TEAM, "nobody")
    assert answer(Objects(), tree(Objects(), root), root).code is Exit.ABSENT


@pytest.mark.spec("FW-607")
@pytest.mark.parametrize(
    ("kind", "status", "state"),
    [
        (AIM_MODEL, {"status": "Ready"}, "Ready"),
        (POD, {"phase": "Pending"}, "Pending"),
        (JOB, {}, "Active"),
        (JOB, {"conditions": [condition("Complete", True)]}, "Complete"),
        (JOB, {"conditions": [condition("Failed", True)]}, "Failed"),
        (INFERENCE_SERVICE, {"conditions": [condition("Ready", False)]}, "NotReady"),
        (GATEWAY, {"conditions": [condition("Programmed", True)]}, "Accepted"),
        (INFERENCE_SERVICE, {}, ""),
    ],
)
def test_states_of_all_kinds(kind: KindName, status: JsonObject, state: str) -> None:
    assert state_of(kind, make(kind, "x", spec={}, status=status)) == state


def test_how_bad_a_state_is() -> None:
    states = ("Ready", "NotAvailable", "Pending", "Degraded", "Failed")
    assert [weight_of(state) for state in states] == [
        Weight.WELL,
        Weight.WELL,
        Weight.UNDER_WAY,
        Weight.HURT,
        Weight.BROKEN,
    ]
