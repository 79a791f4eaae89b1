"""The pure parts of the simulated cluster: Jobs, failures, replicas, logs, summaries."""

from datetime import UTC, datetime, timedelta

import pytest

from aim_local.actors.failures import Failure, Role, failure_for
from aim_local.actors.gateways import is_served, route_parents
from aim_local.actors.job_decision import next_step, pod_for
from aim_local.actors.programs import LIMIT, ContainerLog, WantedLines
from aim_local.demo.run import count_requests
from aim_local.demo.summary import Mood, summarise
from aim_local.demo.view import shortened
from controller_runtime import JsonObject, Key

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def at(seconds: float) -> str:
    return (NOW + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def job(status: JsonObject | None = None, **spec: object) -> JsonObject:
    template = {"metadata": {}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "work", "namespace": "ns", "uid": "u-1"},
        "spec": {"backoffLimit": 1, "template": template, **spec},
        "status": status or {},
    }


def pod(phase: str, code: int | None = None, ended: float = 0, conditions: tuple[str, ...] = ()) -> JsonObject:
    states: JsonObject = {}
    if code is not None:
        states = {"terminated": {"exitCode": code, "finishedAt": at(ended)}}
    return {
        "metadata": {"name": f"p-{phase}", "namespace": "ns"},
        "status": {
            "phase": phase,
            "containerStatuses": [{"name": "main", "state": states}],
            "conditions": [{"type": type_, "status": "True"} for type_ in conditions],
        },
    }


def reasons(status: JsonObject | None) -> dict[str, str]:
    return {one["type"]: one["reason"] for one in (status or {}).get("conditions", ())}


def test_a_new_job_gets_its_first_pod() -> None:
    step = next_step(job(), [], NOW, 1)

    assert (step.create, step.status) == (0, None)


def test_a_suspended_job_does_nothing() -> None:
    step = next_step(job(suspend=True), [], NOW, 1)

    assert (step.create, step.status) == (None, None)


def test_the_next_attempt_waits_twice_as_long_each_time() -> None:
    first = next_step(job(backoffLimit=5), [pod("Failed", 1)], NOW, 10)
    third = next_step(job(backoffLimit=5), [pod("Failed", 1)] * 3, NOW, 10)
    due = next_step(job(backoffLimit=5), [pod("Failed", 1, ended=-11)], NOW, 10)

    assert (first.create, first.again) == (None, 10)
    assert third.again == 40
    assert due.create == 1


def test_a_repeated_decision_about_a_written_status_writes_nothing() -> None:
    first = next_step(job(), [pod("Running")], NOW, 1)
    second = next_step(job(first.status), [pod("Running")], NOW + timedelta(seconds=9), 1)

    assert first.status is not None
    assert first.status["active"] == 1
    assert second.status is None


@pytest.mark.parametrize(
    ("pods", "spec", "reason"),
    [
        ([pod("Failed", 1), pod("Failed", 1)], {}, "BackoffLimitExceeded"),
        (
            [pod("Failed", 10)],
            {"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [10]}}]}},
            "PodFailurePolicy",
        ),
    ],
)
def test_why_a_job_fails(pods: list[JsonObject], spec: JsonObject, reason: str) -> None:
    assert reasons(next_step(job(**spec), pods, NOW, 0).status) == {"FailureTarget": reason, "Failed": reason}


def test_the_first_matching_rule_decides_and_ignored_failures_do_not_count() -> None:
    rules = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}},
    ]
    disrupted = [pod("Failed", 137, conditions=("DisruptionTarget",))] * 3

    assert reasons(next_step(job(podFailurePolicy={"rules": rules}), disrupted, NOW, 0).status) == {}


def test_a_finished_job_expires() -> None:
    ended = {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": at(-20)}]}

    assert next_step(job(ended, ttlSecondsAfterFinished=60), [], NOW, 1).again == 40
    assert next_step(job(ended, ttlSecondsAfterFinished=10), [], NOW, 1).expired


def test_the_pod_of_an_attempt_has_one_name() -> None:
    assert pod_for(job(), 0) == pod_for(job(), 0)
    assert pod_for(job(), 0)["metadata"]["name"] != pod_for(job(), 1)["metadata"]["name"]


@pytest.mark.parametrize(
    ("annotation", "role", "failure"),
    [
        ("crash", Role.DOWNLOAD, Failure.CRASH),
        ("download=auth, predictor=oom", Role.PREDICTOR, Failure.OOM),
        ("download=auth", Role.PREDICTOR, None),
        ("check-size=crash", Role.CHECK_SIZE, Failure.CRASH),
        ("nonsense", Role.DOWNLOAD, None),
        ("", Role.DOWNLOAD, None),
    ],
)
def test_failures_are_named_by_annotations(annotation: str, role: Role, failure: Failure | None) -> None:
    found = failure_for(annotation, role)

    assert (found.failure if found else None) is failure


def test_a_route_is_only_spoken_of_by_gateways_that_exist() -> None:
    route: JsonObject = {
        "metadata": {"name": "r", "namespace": "ns", "generation": 2},
        "spec": {"parentRefs": [{"name": "there"}, {"name": "missing"}]},
    }
    gateway = {"metadata": {"name": "there", "namespace": "ns"}, "spec": {"listeners": [{"name": "http"}]}}

    parents = route_parents(route, lambda key: gateway if key == Key("ns", "there") else None, lambda _: None, at(0))

    assert [one["parentRef"]["name"] for one in parents] == ["there"]
    assert is_served(route | {"status": {"parents": parents}})
    assert not is_served(route | {"status": {"parents": parents}, "metadata": route["metadata"] | {"generation": 3}})


async def test_a_log_is_bounded_and_can_be_followed() -> None:
    log = ContainerLog()
    log.write(b"first\n" * (LIMIT // 6 + 10))
    log.write(b"last\n")
    assert len(log.read()) <= LIMIT
    assert log.read(WantedLines(tail=1)) == b"last\n"
    assert log.read(WantedLines(tail=0)) == b""

    followed = log.follow(WantedLines(tail=1))
    assert await anext(followed) == b"last\n"
    log.write(b"more and ")
    assert await anext(followed) == b"more and "
    log.write(b"more\nat last\n")
    log.write(b"first\n" * (LIMIT // 6 + 10))
    log.close()
    rest = b"".join([chunk async for chunk in followed])
    bar = ContainerLog()
    bar.write(b"1 % \r" * LIMIT)
    assert len(bar.read()) == LIMIT, "nor a line without an end"
    assert len(rest) <= LIMIT, "who cannot follow misses what was dropped"
    assert rest.startswith(b"first\n")


async def test_lines_of_a_log_have_their_time() -> None:
    log = ContainerLog()
    log.write(b"one")
    log.write(b" line\n\nlast")
    text = log.read(WantedLines(stamped=True)).decode()
    stamps, lines = zip(*(line.split(" ", 1) for line in text.split("\n")), strict=True)
    assert lines == ("one line", "", "last")
    assert {len(stamp) for stamp in stamps} == {30}
    assert stamps[0] <= stamps[1] <= stamps[2]
    last = datetime.fromisoformat(stamps[2])
    assert log.read(WantedLines(since=last)).endswith(b"last")
    assert log.read(WantedLines(since=last + timedelta(seconds=1))) == b""


def test_a_summary_names_the_condition_behind_ready() -> None:
    conditions = [
        {"type": "DiscoveryReady", "status": "False", "reason": "JobNotCreated"},
        {"type": "GPUReady", "status": "False", "reason": "GPUNotAvailable", "message": "no node has it"},
        {"type": "Ready", "status": "False", "reason": "GPUNotAvailable"},
    ]
    found = summarise({"kind": "AIMServiceTemplate", "status": {"status": "NotAvailable", "conditions": conditions}})

    assert (found.state, found.why, found.mood) == (
        "NotAvailable",
        "GPUReady: GPUNotAvailable: no node has it",
        Mood.BAD,
    )


def test_names_are_shortened_in_the_middle() -> None:
    assert shortened("short", 10) == "short"
    assert shortened("a-very-long-name-1234", 10) == "a-very…234"


def test_requests_are_counted_by_service_without_leases() -> None:
    def entry(verb: str, resource: str, agent: str) -> JsonObject:
        return {"verb": verb, "resource": resource, "userAgent": agent, "count": 2}

    report = {
        "requests": [
            entry("apply", "aimservices", "aim-serving/0.1.0"),
            entry("list", "pods", "aim-serving/0.1.0"),
            entry("update", "leases", "aim-serving/0.1.0"),
            entry("get", "pods", "kubectl/1"),
        ]
    }
    assert count_requests(report) == {"serving": (2, 2)}
