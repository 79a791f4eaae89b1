"""What is in the way of a service: one line each, that names it and what to do."""

import re
from pathlib import Path

import pytest

from aim_packaging.services import definitions
from controller_runtime.kube.config import ConfigError
from controller_runtime.kube.errors import ApiConnectionError, ApiError, ConnectionFailure
from controller_runtime.kube.refusals import AccessRequest, Refusals
from controller_runtime.log.broker.address import (
    BROKER_URLS,
    BusClosedError,
    BusSetupError,
    checked_urls,
    without_credentials,
)
from controller_runtime.log.broker.connection import ConnectionState, ConnectionStatistics
from controller_runtime.log.broker.streams import StreamFault
from controller_runtime.manager.causes import REMEDIES, Cause
from controller_runtime.manager.settings import Settings, load_settings
from controller_runtime.manager.troubles import (
    StartError,
    broker_troubles,
    of_end,
    of_refusals,
    of_stream,
    of_unreached,
)

WHO = "system:serviceaccount:aim-system:aim-engine-serving"
PAGE = Path(__file__).parents[3] / "docs" / "operations" / "start.md"


def broker(
    state: ConnectionState = ConnectionState.CONNECTED,
    *,
    error: str | None = None,
    denied: str | None = None,
    no_jetstream: str | None = None,
) -> ConnectionStatistics:
    return ConnectionStatistics(state, 1, denied, error, 0, 0, ("nats://nats:4222",), no_jetstream)


@pytest.mark.spec("FW-583")
@pytest.mark.parametrize(
    ("now", "cause", "named"),
    [
        (broker(ConnectionState.CONNECTING, error="[Errno 111] refused"), Cause.BROKER_UNREACHABLE, "refused"),
        (broker(ConnectionState.DISCONNECTED), Cause.BROKER_UNREACHABLE, "was lost"),
        (
            broker(ConnectionState.CONNECTING, error="nats: 'Authorization Violation'"),
            Cause.BROKER_CREDENTIALS,
            "refuses the credentials",
        ),
        (
            broker(ConnectionState.CONNECTING, error="[SSL: CERTIFICATE_VERIFY_FAILED] unable to get issuer"),
            Cause.BROKER_CERTIFICATE,
            "CERTIFICATE_VERIFY_FAILED",
        ),
        (broker(no_jetstream="no answer at $JS.API"), Cause.BROKER_NO_JETSTREAM, "$JS.API"),
        (
            broker(denied='nats: permissions violation for publish to "aim.state.x"'),
            Cause.BROKER_DENIES,
            "denies publishing to aim.state.x",
        ),
        (
            broker(denied='nats: permissions violation for subscription to "_inbox.>"'),
            Cause.BROKER_DENIES,
            "denies subscribing to _inbox.>",
        ),
    ],
    ids=lambda one: one.value if isinstance(one, Cause) else "",
)
def test_what_is_wrong_with_the_broker_is_one_line(now: ConnectionStatistics, cause: Cause, named: str) -> None:
    (trouble,) = broker_troubles(now)
    assert trouble.cause is cause
    assert named in trouble.line
    assert "nats://nats:4222" in trouble.line
    assert trouble.line.endswith(REMEDIES[cause])


@pytest.mark.spec("FW-583")
def test_a_broker_that_is_well_or_was_not_asked_yet_is_no_trouble() -> None:
    assert list(broker_troubles(broker())) == []
    assert list(broker_troubles(broker(ConnectionState.CONNECTING))) == []


def forbidden(verb: str, resource: str, group: str, where: str, user: str = WHO) -> ApiError:
    words = f'{resource} is forbidden: User "{user}" cannot {verb} resource "{resource}" in API group "{group}" {where}'
    return ApiError(f"GET /apis/{group}/{resource}", 403, "Forbidden", words)


def reported(asked: AccessRequest, error: ApiError, optional: str = "") -> list[str]:
    roles = {("coordination.k8s.io", "leases")}
    return [one.line for one in of_refusals([(asked, error)], optional=[optional], of_roles=roles)]


@pytest.mark.spec("FW-586")
def test_a_missing_permission_names_account_verb_resource_reach_and_role() -> None:
    error = forbidden("list", "aimservices", "aim.eai.amd.com", "at the cluster scope")
    (line,) = reported(AccessRequest("list", "aimservices.aim.eai.amd.com", ""), error)
    assert line.startswith(
        "ServiceAccount aim-system/aim-engine-serving may not list aimservices.aim.eai.amd.com in the whole cluster, "
        "which the ClusterRole aim-engine-serving should grant; "
    )
    lease = forbidden("update", "leases", "coordination.k8s.io", 'in the namespace "aim-system"')
    (line,) = reported(AccessRequest("update", "leases.coordination.k8s.io", "aim-system"), lease)
    assert "may not update leases.coordination.k8s.io in namespace aim-system" in line
    assert "the Role aim-engine-serving should" in line
    core = forbidden("create", "events", "", 'in the namespace "a"', user="jane")
    (line,) = reported(AccessRequest("create", "events", "a"), core)
    assert line.startswith(
        'User "jane" may not create events in namespace a, which the ClusterRole that is bound to it'
    )


@pytest.mark.spec("FW-586")
def test_the_same_permission_is_reported_once_whatever_the_objects() -> None:
    error = forbidden("patch", "aimservices/status", "aim.eai.amd.com", 'in the namespace "a"')
    standing = [(AccessRequest(verb, "aimservices", "a"), error) for verb in ("apply", "patch")]
    assert len(list(of_refusals(standing, optional=(), of_roles=()))) == 1


@pytest.mark.spec("FW-586")
def test_a_definition_that_is_missing_or_too_old_is_named_unless_it_is_optional() -> None:
    asked = AccessRequest("list", "inferenceservices.serving.kserve.io", "")
    missing = ApiError("GET /apis/serving.kserve.io/v1beta1/inferenceservices", 404, "", "404 page not found")
    (line,) = reported(asked, missing)
    assert "does not serve inferenceservices.serving.kserve.io" in line
    assert reported(asked, missing, optional=asked.resource) == []
    words = "failed to create typed patch object (a/b; g/v1, Kind=K): .status.routing: field not declared in schema"
    (line,) = reported(AccessRequest("apply", "aimservices.aim.eai.amd.com", "a"), ApiError("PATCH /x", 500, "", words))
    assert "definition of aimservices.aim.eai.amd.com has no field .status.routing" in line
    assert line.endswith(REMEDIES[Cause.DEFINITION_OLD])


@pytest.mark.spec("FW-771")
def test_a_missing_kind_of_another_project_names_the_project_and_the_command_that_installs_it() -> None:
    foreign = {
        kind.group: kind.resource
        for one in definitions()
        for kind in (part.kind for part in (*one.consumes, *one.publishes))
        if "." in kind.group and not kind.group.endswith((".k8s.io", "aim.eai.amd.com"))
    }
    for resource in (*foreign.values(), "httproutes.gateway.networking.k8s.io", "scaledobjects.keda.sh"):
        (line,) = reported(AccessRequest("list", resource, ""), ApiError("GET /apis/x", 404, "", "404 page not found"))
        assert "deploy/crds" not in line
        assert re.search(r"; install [A-Z][A-Za-z ]+: (helm|kubectl|see) ", line), line
        words = "failed to create typed patch object (a/b; g/v1, Kind=K): .spec.x: field not declared in schema"
        (line,) = reported(AccessRequest("apply", resource, "a"), ApiError("PATCH /x", 500, "", words))
        assert re.search(r"; upgrade [A-Z][A-Za-z ]+$", line), line
    (own,) = reported(AccessRequest("list", "aimmodels.aim.eai.amd.com", ""), ApiError("GET /apis/x", 404, "", "404"))
    assert own.endswith(REMEDIES[Cause.DEFINITION_MISSING])
    (unknown,) = reported(AccessRequest("list", "things.example.org", ""), ApiError("GET /apis/x", 404, "", "404"))
    assert unknown.endswith("install the project that serves the API group example.org")


@pytest.mark.spec("FW-767")
def test_a_changed_stream_is_reported_with_the_command_that_helps() -> None:
    trouble = of_stream(StreamFault("AIM_STATE", {"sealed": (True, None)}))
    assert trouble.line.startswith("stream AIM_STATE changed: sealed is true, not unset; ")
    assert trouble.line.endswith("nats stream rm AIM_STATE --force")


@pytest.mark.spec("FW-586")
@pytest.mark.parametrize(
    ("verb", "error"),
    [
        ("create", ApiError("POST /x", 403, "Forbidden", 'pods "x" is forbidden: exceeded quota: small')),
        ("create", ApiError("POST /x", 403, "Forbidden", 'pods "x" is forbidden: violates PodSecurity "restricted"')),
        ("patch", ApiError("PATCH /x", 403, "", 'admission webhook "kserve" denied the request: no')),
        ("get", ApiError("GET /x", 404, "NotFound", "not found")),
        ("apply", ApiError("PATCH /x", 500, "", "failed to create typed patch object: .spec.x: expected string")),
        ("list", ApiError("GET /x", 500, "InternalError", "etcd")),
    ],
    ids=["quota", "pod-security", "webhook", "object-not-there", "wrong-type", "server-error"],
)
def test_what_is_wrong_with_one_object_is_no_trouble_of_the_service(verb: str, error: ApiError) -> None:
    refusals = Refusals()
    refusals.note_refusal(AccessRequest(verb, "pods", "a"), error)
    assert refusals.current() == ()


@pytest.mark.spec("FW-586")
def test_a_refusal_stands_until_the_same_is_allowed_or_not_asked_any_more() -> None:
    now = 0.0
    refusals = Refusals(lambda: now)
    error = forbidden("list", "pods", "", "at the cluster scope")
    pods = AccessRequest.of("list", "pods", "/api/v1/pods")
    refusals.note_refusal(pods, error)
    refusals.answered("list", "nodes", "/api/v1/nodes")
    refusals.answered("list", "pods", "/api/v1/namespaces/a/pods")
    assert refusals.current() == ((pods, error),)
    refusals.answered("list", "pods", "/api/v1/pods")
    assert refusals.current() == ()
    refusals.note_refusal(pods, error)
    now = 599.0
    assert refusals.current()
    now = 600.0
    assert refusals.current() == ()


@pytest.mark.spec("FW-586", "FW-507")
def test_a_secret_that_is_withheld_on_purpose_is_no_trouble() -> None:
    refusals = Refusals()
    refusals.note_refusal(
        AccessRequest("get", "secrets", "team-a"), forbidden("get", "secrets", "", 'in the namespace "team-a"')
    )
    assert refusals.current() == ()


@pytest.mark.spec("FW-586")
def test_no_more_than_64_refusals_are_remembered() -> None:
    refusals = Refusals()
    for number in range(100):
        refusals.note_refusal(AccessRequest("get", "pods", f"n{number}"), forbidden("get", "pods", "", ""))
    assert [asked.namespace for asked, _ in refusals.current()] == [f"n{number}" for number in range(36, 100)]


@pytest.mark.spec("FW-583")
def test_credentials_are_known_again_as_soon_as_anything_is_answered() -> None:
    refusals = Refusals()
    asked = AccessRequest("list", "pods", "")
    refusals.note_refusal(asked, ApiError("GET /api/v1/pods", 401, "Unauthorized", "Unauthorized"))
    ((_, error),) = refusals.current()
    (line,) = reported(asked, error)
    assert line.endswith(REMEDIES[Cause.API_CREDENTIALS])
    refusals.answered("get", "namespaces", "/api/v1/namespaces/kube-system")
    assert refusals.current() == ()


@pytest.mark.spec("FW-583")
def test_why_the_api_server_was_never_reached_is_reported_apart() -> None:
    absent = ApiConnectionError("GET /x", ConnectionFailure.REFUSED, "https://api:6443", "dial", "no")
    assert of_unreached(absent).found == "the API server https://api:6443 cannot be reached: connection refused"
    assert of_unreached(ConfigError("token /x is empty")).cause is Cause.API_CREDENTIALS
    denied = forbidden("get", "namespaces", "", 'in the namespace "kube-system"')
    assert of_unreached(denied).cause is Cause.PERMISSION


@pytest.mark.spec("FW-585", "FW-587")
def test_the_end_of_a_process_names_what_to_change_and_nothing_that_nobody_expected() -> None:
    def grouped(error: Exception) -> ExceptionGroup[Exception]:
        return ExceptionGroup("unhandled", [ExceptionGroup("inner", [error])])

    assert of_end(grouped(StartError("port taken"))).line == f"port taken; {REMEDIES[Cause.SETTINGS]}"
    assert of_end(grouped(BusSetupError("no file"))).cause is Cause.SETTINGS
    assert of_end(grouped(BusClosedError("closed"))).cause is Cause.BROKER_CREDENTIALS
    unexpected = of_end(grouped(KeyError("hf_secret")))
    assert "KeyError" in unexpected.line
    assert "hf_secret" not in unexpected.line


@pytest.mark.spec("FW-587", "FW-585")
@pytest.mark.parametrize("text", ["", "  ,", "http://a:1", "nats://", "nats://a:port", "nats://a:0", "nats://a:99999"])
def test_what_is_no_url_of_a_broker_ends_the_process_and_shows_no_credentials(
    text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTROLLER_NATS_URL", text.replace("nats://a", "nats://u:s3cret@a") or " ")
    with pytest.raises(SystemExit) as ended:
        load_settings(Settings, [])
    assert ended.value.code == 2
    reported = capsys.readouterr().err
    assert "CONTROLLER_NATS_URL" in reported
    assert "s3cret" not in reported


@pytest.mark.spec("FW-587", "FW-585")
def test_urls_of_brokers_are_shown_without_what_is_secret() -> None:
    urls = "nats://a:p@ss@one:4222, tls://token@two,nats://three"
    assert checked_urls(urls) == urls
    assert re.fullmatch(BROKER_URLS, urls)
    assert without_credentials(urls) == "nats://***@one:4222, tls://***@two,nats://three"


@pytest.mark.spec("FW-583")
def test_the_page_has_each_trouble_with_its_remedy() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    shown = {reason: remedy for reason, _, remedy in rows}
    for cause, remedy in REMEDIES.items():
        assert shown.get(cause.value, "").replace("`", "").startswith(remedy), f"{cause.value}: {remedy}"
