"""Which permissions of the accounts of the chart were used, by the audit log of a real API server (FW-506).

    PYTHONPATH=tests python -m support.used_permissions FOLDER

Platforms of tests note in a folder what their services asked for (`note`). What no run used, and no exception below
explains, is a permission that can go. Everything but the ends is pure.
"""

import json
import os
import re
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from aim_cli.installation.doctor import READER
from aim_domain.services import SERVICES
from aim_local.realcluster.settings import PERMISSIONS
from aim_local.realcluster.users import user_name
from controller_runtime import JsonObject, loads

FOLDER: Final = os.environ.get("USED_PERMISSIONS", "")
"""Where tests against real programs note what was asked for; empty where nobody wants to know."""
_SERVICES: Final[Mapping[str, str]] = {user_name(service): service for service in SERVICES}
_OTHERS: Final = ("console", "check", "downloader")
_CONTAINED: Final = frozenset({"check", "downloader"})
"""Who acts under an account of its own only where pods are containers (`make test-e2e CLUSTER=real CONTAINERS=1`)."""
_MARK: Final = "containers"
_OTHER: Final = re.compile(rf"system:serviceaccount:[^:]+:aim-engine-({'|'.join(_OTHERS)})")
_REACHES: Final = ("cluster", "system", "direct")
_CREATED: Final = 201
_RBAC: Final = "rbac.authorization.k8s.io"


class Permission(NamedTuple):
    """One thing that a role allows, or that a request needed.

    Attributes:
        resource: plural, with ``/subresource`` if there is one.
        name: the only one that it is for; empty = any.
    """

    service: str
    verb: str
    group: str
    resource: str
    name: str = ""

    def __str__(self) -> str:
        what = f"{self.resource}{f'.{self.group}' if self.group else ''}{f' {self.name}' if self.name else ''}"
        return f"{self.service}: {self.verb} {what}"


class Seldom(NamedTuple):
    """A permission that no test uses, and why it stays."""

    service: str
    verb: str
    resource: str
    why: str


_COUNTED: Final = "an Event that is told again is counted; the code is that of discovery, artifacts and serving"
_OF_OTHERS: Final = (
    "the doctor asks whether who runs it may list what other commands read, and lists few of them itself"
)
SELDOM: Final = (
    Seldom("model-sync", "patch", "events", _COUNTED),
    Seldom("routing", "patch", "events", _COUNTED),
    Seldom("artifacts", "patch", "rolebindings", "a binding of a former release is moved off the account `default`"),
    Seldom("artifacts", "get", "secrets", "only Jobs that name Secrets are watched for their correction"),
    Seldom("serving", "delete", "aimservicetemplates", "a service whose base template changed leaves its derived one"),
    *(Seldom("check", verb, plural, _OF_OTHERS) for verb, _, plural in READER),
)
"""Some runs use them, most do not. A line for what no role has is a fault."""


def granted(table: JsonObject) -> set[Permission]:
    """Every single permission of the generated roles."""
    roles = [(service, rule) for service, own in table["services"].items() for reach in _REACHES for rule in own[reach]]
    roles += [(name, rule) for name in _OTHERS for rule in table.get(name, ())]
    return {
        Permission(service, verb, group, resource, name)
        for service, rule in roles
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames") or [""]
    }


def needed(event: JsonObject) -> Iterator[Permission]:
    """What a request of one of the accounts needed, if it was allowed; with the name that it was for.

    Two checks leave no line of their own. An apply that creates is authorized as a patch and as a create. Whoever binds
    a role must be allowed to do what it allows, which the artifacts service is not, or to bind it.
    """
    service = _account(event["user"].get("username", ""))
    what = event.get("objectRef") or {}
    if service is None or "resource" not in what or decision(event) != "allow":
        return
    resource = "/".join(filter(None, (what["resource"], what.get("subresource"))))
    group, name = what.get("apiGroup", ""), what.get("name", "")
    yield Permission(service, event["verb"], group, resource, name)
    if (event.get("responseStatus") or {}).get("code") != _CREATED:
        return
    if event["verb"] == "patch":
        yield Permission(service, "create", group, resource, name)
    if resource == "rolebindings":
        yield Permission(service, "bind", _RBAC, "clusterroles", name)


def _account(user: str) -> str | None:
    other = _OTHER.fullmatch(user)
    return _SERVICES.get(user) if other is None else other[1]


def decision(event: JsonObject) -> str:
    """``allow`` or ``forbid``."""
    return str((event.get("annotations") or {}).get("authorization.k8s.io/decision", ""))


def unused(roles: Iterable[Permission], requests: Iterable[Permission]) -> list[Permission]:
    """Of what roles allow: what no request needed.

    A get of what may be listed is left out: it shows nothing that the list does not. It is for what a write meets that
    the service has not seen yet, which no test can hold still.
    """
    some, allowed = set(requests), set(roles)
    seen = some | {one._replace(name="") for one in some}
    return sorted(one for one in allowed - seen if not (one.verb == "get" and one._replace(verb="list") in allowed))


def faults(roles: Iterable[Permission], requests: Iterable[Permission], seldom: Iterable[Seldom]) -> list[str]:
    """One line for each permission that nobody uses and nothing explains, and for each explanation of none."""
    every, known = set(roles), {one[:3] for one in seldom}
    found = [f"{one} is granted and never used" for one in unused(every, requests) if _key(one) not in known]
    gone = sorted(known - {_key(one) for one in every})
    return found + [f"{service}: {verb} {resource} is explained and not granted" for service, verb, resource in gone]


def _key(one: Permission) -> tuple[str, str, str]:
    return one.service, one.verb, one.resource


def of_logs(folder: Path) -> set[Permission]:
    """What the audit logs below a folder show to have been needed."""
    roles = granted(table_of_roles())
    names = {one.name for one in roles}
    found = set()
    for log in folder.rglob("audit.log"):
        with log.open("rb") as lines:
            for line in lines:
                # The last one may be half written, as the API server goes on.
                for one in needed(loads(line)) if line.endswith(b"\n") else ():
                    # Of names only those that a role is limited to say anything.
                    found.add(one if one.name in names else one._replace(name=""))
    return found


def note(logs: Path, folder: Path, *, contained: bool = False) -> None:
    """Write into a folder what the audit logs below another one show, and whether pods were containers."""
    folder.mkdir(parents=True, exist_ok=True)
    if contained:
        (folder / _MARK).touch()
    (folder / f"{uuid.uuid4().hex}.json").write_text(json.dumps(sorted(of_logs(logs))), encoding="utf-8")


def noted(folder: Path) -> set[Permission]:
    """All that was noted there."""
    return {Permission(*one) for file in folder.rglob("*.json") for one in json.loads(file.read_text("utf-8"))}


def table_of_roles() -> JsonObject:
    """The permissions of the chart."""
    found: JsonObject = yaml.safe_load(PERMISSIONS.read_text(encoding="utf-8"))
    return found


def main(folder: Path) -> int:
    """Say what is wrong; the exit code."""
    roles, used = granted(table_of_roles()), noted(folder)
    if not used:
        print(f"{folder} tells of no request: run make test-real and make test-e2e CLUSTER=real first")
        return 1
    absent = frozenset() if any(folder.rglob(_MARK)) else _CONTAINED
    for account in sorted(absent):
        print(f"{account} did not run under its account, which takes containers: its role is not judged")
    roles = {one for one in roles if one.service not in absent}
    wrong = faults(roles, used, (one for one in SELDOM if one.service not in absent))
    for line in wrong:
        print(line)
    print(f"{len(roles)} permissions, {len(wrong)} of them in question, {len(SELDOM)} seldom needed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
