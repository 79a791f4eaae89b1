"""Who is a viewer of a console for many: tokens, sessions, and how much of each there may be."""

import asyncio
import base64
import json

import pytest

from aim_cli.cluster.refs import JsonObject
from aim_console.login import _own_path
from aim_console.sessions import (
    LONGEST_SECONDS,
    OF_A_USER,
    REVIEWED_SECONDS,
    Sessions,
    User,
    Viewers,
    access_review,
    end_of,
    user_of,
)
from aim_console.sessions import OF_ALL as MOST_SESSIONS
from aim_console.tokens import (
    KNOWN_SECONDS,
    OF_ALL,
    OF_AN_ADDRESS,
    READINGS,
    REFUSED_SECONDS,
    STREAMS,
    Places,
    Refusals,
    Tokens,
    TooManyTokensError,
    UnaskedError,
    UnknownTokenError,
)
from aim_domain.kind_names import AIM_SERVICE
from controller_runtime import ApiError

ADA = User("ada", "1", ("team-a",), (("scopes", ("x", "y")),))


class Time:
    """A clock that the test moves."""

    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Cluster:
    """Answers as an API server does that knows some tokens."""

    def __init__(self, **known: str) -> None:
        self.known = known
        self.asked = list[str]()
        self.away: Exception | None = None

    async def __call__(self, question: JsonObject) -> JsonObject:
        if self.away is not None:
            raise self.away
        token = question["spec"]["token"]
        self.asked.append(token)
        name = self.known.get(token)
        if name is None:
            return {**question, "status": {"error": f"no such token {token}"}}
        return {**question, "status": {"authenticated": True, "user": {"username": name, "uid": f"uid-{name}"}}}


def jwt(**claims: object) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"e30.{body}.sig"


# Identity


@pytest.mark.spec("FW-678")
def test_all_that_the_api_server_says_of_a_user_is_asked_about() -> None:
    reported = {"username": "ada", "uid": "1", "groups": ["team-a"], "extra": {"scopes": ["x", "y"]}}
    assert user_of({"status": {"authenticated": True, "user": reported}}) == ADA
    assert access_review(ADA, {"verb": "list"})["spec"] == {
        "user": "ada",
        "uid": "1",
        "groups": ["team-a"],
        "extra": {"scopes": ["x", "y"]},
        "resourceAttributes": {"verb": "list"},
    }
    for status in ({}, {"user": reported}, {"authenticated": False, "user": reported}, {"authenticated": True}):
        assert user_of({"status": status}) is None


@pytest.mark.spec("FW-679")
@pytest.mark.parametrize(
    ("token", "end"),
    [
        (jwt(exp=7), 7.0),
        (jwt(), None),
        (jwt(exp="7"), None),
        (jwt(exp=True), None),
        ("opaque", None),
        ("a.b.c", None),
        ("a.ä.c", None),
        ("e30.W10.x", None),
        ("", None),
    ],
)
def test_a_token_tells_its_end_or_does_not(token: str, end: float | None) -> None:
    assert end_of(token) == end


# Tokens


@pytest.mark.spec("FW-680")
async def test_answers_count_for_a_while_and_refusals_for_a_shorter_one() -> None:
    cluster, clock = Cluster(good="ada"), Time()
    tokens = Tokens(cluster, clock)
    for _ in range(2):
        assert (await tokens.user("good", "a")).name == "ada"
        with pytest.raises(UnknownTokenError):
            await tokens.user("bad", "a")
    assert cluster.asked == ["good", "bad"]
    clock.now += REFUSED_SECONDS
    with pytest.raises(UnknownTokenError):
        await tokens.user("bad", "a")
    clock.now += KNOWN_SECONDS - REFUSED_SECONDS
    await tokens.user("good", "a")
    assert cluster.asked == ["good", "bad", "bad", "good"]
    for token in ("", "x" * 20_000):
        with pytest.raises(UnknownTokenError):
            await tokens.user(token, "a")
    assert len(cluster.asked) == 4


@pytest.mark.spec("FW-680")
async def test_a_flood_of_unknown_tokens_is_not_passed_on() -> None:
    cluster, clock = Cluster(good="ada", other="bob"), Time()
    tokens = Tokens(cluster, clock)
    await tokens.user("good", "flood")
    found = await asyncio.gather(*(tokens.user(f"t{n}", "flood") for n in range(100)), return_exceptions=True)
    late = [one for one in found if isinstance(one, TooManyTokensError)]
    # Those that were asked about at once with the last that was let through.
    assert len(cluster.asked) - 1 <= OF_AN_ADDRESS[0] + 1
    assert len(late) >= 94
    assert str(late[0]) == "too many tokens that the API server does not know; try again in 2 s"
    assert (await tokens.user("other", "elsewhere")).name == "bob", "others log in meanwhile"
    clock.now += KNOWN_SECONDS
    cluster.known["good"] = "ada"
    for n in range(10):
        with pytest.raises((UnknownTokenError, TooManyTokensError)):
            await tokens.user(f"u{n}", "flood")
    assert (await tokens.user("good", "flood")).name == "ada", "who was known is not held up"


@pytest.mark.spec("FW-680")
def test_refusals_are_counted_by_address_and_in_all() -> None:
    clock = Time()
    refusals = Refusals(clock)
    for _ in range(OF_AN_ADDRESS[0]):
        assert refusals.wait("a") == 0
        refusals.add("a")
    assert refusals.wait("a") == OF_AN_ADDRESS[1]
    assert refusals.wait("b") == 0
    clock.now += OF_AN_ADDRESS[1]
    assert refusals.wait("a") == 0
    for n in range(OF_ALL[0]):
        refusals.add(f"other-{n}")
    assert 0 < refusals.wait("never seen") < 1
    for n in range(5000):
        refusals.add(str(n))
    assert len(refusals._of) <= 1024


@pytest.mark.spec("FW-678", "FW-680")
async def test_no_token_is_reported_when_the_api_server_is_away(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster()
    cluster.away = ApiError("POST tokenreviews", 502, "", "a proxy says: you sent s3cret-t0ken")
    tokens = Tokens(cluster, Time())
    with pytest.raises(UnaskedError) as raised:
        await tokens.user("s3cret-t0ken", "a")
    output = capsys.readouterr()
    assert "a proxy says" in output.out + output.err
    assert "s3cret" not in output.out + output.err + str(raised.value)
    assert raised.value.__cause__ is None


# Sessions


@pytest.mark.spec("FW-679")
async def test_a_session_lasts_until_its_token_or_eight_hours_end() -> None:
    clock = Time()

    async def still(_: str) -> User:
        return ADA

    sessions = Sessions(still, clock)
    by_token = sessions.open(jwt(exp=clock.now + 600), ADA)
    long = sessions.open(jwt(exp=clock.now + 10 * LONGEST_SECONDS), ADA)
    assert await sessions.user(by_token) == ADA
    assert await sessions.user("nobody's") is None
    clock.now += 600
    assert await sessions.user(by_token) is None
    assert await sessions.user(long) == ADA
    clock.now += LONGEST_SECONDS
    assert await sessions.user(long) is None
    assert len(sessions) == 0
    assert await sessions.user(sessions.open(jwt(exp=1), ADA)) is None


@pytest.mark.spec("FW-679")
async def test_a_token_is_asked_about_again_and_its_session_follows() -> None:
    cluster, clock = Cluster(good="ada"), Time()
    tokens = Tokens(cluster, clock)
    sessions = Sessions(tokens.reviewed, clock)
    secret = sessions.open("good", await tokens.user("good", "a"))
    clock.now += REVIEWED_SECONDS - 1
    assert await sessions.user(secret) is not None
    assert len(cluster.asked) == 1
    clock.now += 1
    assert all(await asyncio.gather(*(sessions.user(secret) for _ in range(5))))
    assert len(cluster.asked) == 2, "once for all requests of the moment"
    clock.now += REVIEWED_SECONDS
    cluster.away = ApiError("POST tokenreviews", 503, "", "away")
    with pytest.raises(UnaskedError):
        await sessions.user(secret)
    cluster.away = None
    assert await sessions.user(secret) is not None, "an outage ends no session"
    cluster.known["good"] = "eve"
    clock.now += REVIEWED_SECONDS
    assert await sessions.user(secret) is None, "the token is somebody else's now"
    other = sessions.open("good", await tokens.user("good", "a"))
    del cluster.known["good"]
    clock.now += REVIEWED_SECONDS
    assert await asyncio.gather(*(sessions.user(other) for _ in range(3))) == [None] * 3


@pytest.mark.spec("FW-679")
async def test_neither_token_nor_secret_is_kept_and_who_logs_out_is_gone() -> None:
    asked = list[str]()

    async def still(token: str) -> User:
        asked.append(token)
        return ADA

    clock = Time()
    sessions = Sessions(still, clock)
    secret = sessions.open("the-token", ADA)
    held = repr(sessions)
    assert "the-token" not in held
    assert secret not in held
    assert len(secret) >= 43
    clock.now += REVIEWED_SECONDS
    await sessions.user(secret)
    assert asked == ["the-token"]
    assert sessions.close(secret) == ADA
    assert sessions.close(secret) is None
    assert await sessions.user(secret) is None


@pytest.mark.spec("FW-679")
async def test_the_session_that_was_used_least_recently_makes_room() -> None:
    clock = Time()

    async def still(_: str) -> User:
        return ADA

    sessions = Sessions(still, clock)
    own = [sessions.open("t", ADA) for _ in range(OF_A_USER)]
    await sessions.user(own[0])
    sessions.open("t", User("ada", "1", ("other groups",)))
    assert [await sessions.user(one) is not None for one in own] == [True, False, *[True] * (OF_A_USER - 2)]
    for n in range(MOST_SESSIONS):
        sessions.open("t", User(f"user-{n}"))
    assert len(sessions) == MOST_SESSIONS
    assert await sessions.user(own[0]) is None


# Rights and streams


@pytest.mark.spec("FW-678")
async def test_rights_are_those_of_each_user_and_forgotten_with_them() -> None:
    asked, clock = list[JsonObject](), Time()

    async def review(body: JsonObject) -> JsonObject:
        asked.append(body["spec"])
        return {"status": {"allowed": body["spec"]["user"] == "ada"}}

    viewers = Viewers(review, clock)
    kinds = [AIM_SERVICE]
    # Requests at the same time ask once.
    ada, again = await asyncio.gather(*(viewers.access(ADA).rights(kinds, ["n"]) for _ in range(2)))
    assert ada == again
    bob = await viewers.access(User("bob")).rights(kinds, ["n"])
    assert ada.admits(AIM_SERVICE.resource, "n")
    assert not bob.admits(AIM_SERVICE.resource, "n")
    assert [one["user"] for one in asked] == ["ada", "bob", "bob"]
    assert asked[0]["groups"] == ["team-a"]
    assert asked[2]["resourceAttributes"]["namespace"] == "n"
    clock.now += 61
    viewers.access(ADA)
    assert len(viewers) == 1
    for n in range(1000):
        viewers.access(User(f"user-{n}"))
    assert len(viewers) == 256


@pytest.mark.spec("FW-678")
async def test_rights_of_namespaces_that_are_gone_are_forgotten() -> None:
    clock = Time()

    async def review(_: JsonObject) -> JsonObject:
        return {"status": {"allowed": False}}

    access = Viewers(review, clock).access(ADA)
    await access.rights([AIM_SERVICE], [f"n-{n}" for n in range(100)])
    clock.now += 301
    await access.rights([AIM_SERVICE], ["n-1"])
    assert len(access._known) == 2


@pytest.mark.spec("FW-682")
def test_streams_are_counted_by_person_and_in_all() -> None:
    places = Places(*STREAMS)
    assert [places.take("ada") for _ in range(9)] == [True] * 8 + [False]
    places.leave("ada")
    assert places.take("ada")
    assert sum(places.take(n) for n in range(1000)) == 500 - 8
    for n in range(492):
        places.leave(n)
    for _ in range(8):
        places.leave("ada")
    assert not places._taken
    readings = Places(*READINGS)
    assert [readings.take(who) for who in ("ada", "ada", "ada", "bob", "bob", "eve")] == [
        True,
        True,
        False,
        True,
        True,
        False,
    ]


@pytest.mark.spec("FW-681")
@pytest.mark.parametrize(
    ("path", "led"),
    [
        ("/", True),
        ("/objects/aimservices/a/b", True),
        ("//evil.example", False),
        ("//[", False),
        ("/\\evil.example", False),
        ("/\t/evil.example", False),
        ("https://evil.example/", False),
        ("javascript:alert(1)", False),
        ("", False),
    ],
)
def test_a_login_leads_to_a_path_of_the_console(path: str, *, led: bool) -> None:
    assert _own_path(path) == (path if led else "/")
