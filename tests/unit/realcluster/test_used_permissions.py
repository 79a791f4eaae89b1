"""Which permissions requests need, and what is said of those that none needed."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.used_permissions import Permission, Seldom, faults, granted, main, needed, note, unused

from aim_local.realcluster.users import user_name

SERVING = user_name("serving")


def event(verb: str, resource: str, *, code: int = 200, **more: Any) -> dict[str, Any]:
    what, _, subresource = resource.partition("/")
    reference = {"resource": what, "apiGroup": "aim.eai.amd.com", "name": "a", "subresource": subresource}
    allowed = {"authorization.k8s.io/decision": "allow"}
    reported = {"user": {"username": SERVING}, "verb": verb, "objectRef": reference, "annotations": allowed}
    return {**reported, "responseStatus": {"code": code}, **more}


def verbs(reported: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one.verb, one.resource) for one in needed(reported)]


@pytest.mark.spec("FW-506")
def test_a_request_needs_its_verb_and_an_apply_that_creates_another() -> None:
    assert list(needed(event("get", "aimservices"))) == [
        Permission("serving", "get", "aim.eai.amd.com", "aimservices", "a")
    ]
    assert verbs(event("patch", "aimservices/status")) == [("patch", "aimservices/status")]
    assert verbs(event("patch", "aimservices", code=201)) == [("patch", "aimservices"), ("create", "aimservices")]
    assert verbs(event("create", "rolebindings", code=201)) == [("create", "rolebindings"), ("bind", "clusterroles")]


@pytest.mark.spec("FW-506", "FW-303")
@pytest.mark.parametrize("account", ["console", "check", "downloader"])
def test_accounts_beside_the_services_are_judged_as_well(account: str) -> None:
    asked = event("patch", "aimartifacts/status", user={"username": f"system:serviceaccount:team:aim-engine-{account}"})
    [used] = needed(asked)
    rule = {"apiGroups": ["aim.eai.amd.com"], "resources": ["aimartifacts/status"], "verbs": ["patch", "update"]}
    [left] = unused(granted({"services": {}, account: [rule]}), [used])
    assert str(left) == f"{account}: update aimartifacts/status.aim.eai.amd.com"


@pytest.mark.spec("FW-506")
@pytest.mark.parametrize("contained", [True, False])
def test_whose_pods_were_no_containers_is_not_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, contained: bool
) -> None:
    log = tmp_path / "logs/audit.log"
    log.parent.mkdir()
    line = json.dumps(event("get", "aimservices"))
    log.write_text(f"{line}\n{line[:40]}", encoding="utf-8")
    note(log.parent, tmp_path / "used", contained=contained)
    assert main(tmp_path / "used") == 1
    said = capsys.readouterr().out
    assert ("downloader: patch aimartifacts/status.aim.eai.amd.com is granted and never used" in said) is contained
    assert ("check did not run" in said) is not contained
    assert "console: create tokenreviews" in said, "which needs no container"


@pytest.mark.spec("FW-506")
def test_others_and_what_was_refused_show_nothing() -> None:
    assert not verbs(event("get", "aimservices", user={"username": "aim-local:kubectl"}))
    assert not verbs(event("get", "aimservices", annotations={"authorization.k8s.io/decision": "forbid"}))
    assert not verbs(event("get", "aimservices", objectRef=None))


@pytest.mark.spec("FW-506")
def test_what_no_request_needed_is_named() -> None:
    rule = {"apiGroups": ["g"], "resources": ["things"], "verbs": ["list", "get", "delete"]}
    named = {"apiGroups": ["g"], "resources": ["leases"], "verbs": ["update"], "resourceNames": ["mine"]}
    roles = granted({"services": {"serving": {"cluster": [rule], "system": [named], "direct": []}}})
    assert len(roles) == 4
    of = "serving"
    listed = Permission(of, "list", "g", "things")
    # Of a name only requests for that name count; of all names any does.
    others = [Permission(of, "update", "g", "leases", "another"), Permission(of, "delete", "g", "things", "x")]
    left = unused(roles, [listed, *others])
    assert left == [Permission(of, "update", "g", "leases", "mine")], "what may be listed may be got"
    assert unused(roles, [listed, *others, left[0]]) == []
    assert [str(one) for one in unused(roles, [])] == [
        "serving: delete things.g",
        "serving: list things.g",
        "serving: update leases.g mine",
    ]


@pytest.mark.spec("FW-506")
def test_an_exception_has_to_be_one() -> None:
    one = Permission("serving", "delete", "g", "things")
    assert faults([one], [], []) == ["serving: delete things.g is granted and never used"]
    explained = Seldom("serving", "delete", "things", "it is seldom")
    assert faults([one], [], [explained]) == []
    assert faults([one], [one], [explained]) == []
    assert faults([], [], [explained]) == ["serving: delete things is explained and not granted"]
