"""``aim why``: ask the cluster, follow, print."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from rich.console import Console

from aim_cli.connecting import UnreachableError, cluster
from aim_cli.output import safe
from aim_cli.targets import target
from aim_cli.why.blockers import Ref
from aim_cli.why.chain import Link, causes
from aim_cli.why.remedies import is_known, remedy_of
from controller_runtime import ApiError, JsonObject, Kind, KubeClient

NOTHING, BLOCKED, ABSENT = 0, 1, 3
_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


async def run(kind: str, name: str, kubeconfig: str | None, context: str | None, out: Console) -> int:
    """Print the way from the object to the cause; the exit code.

    Raises:
        TargetError: no such kind, or a name of another form.
        UnreachableError: the cluster cannot be asked.
    """
    wanted = target(kind, name)
    start = Ref(wanted.part.kind, wanted.key.namespace, wanted.key.name)
    async with cluster(kubeconfig, context) as kube:
        asked = _Asked(kube)
        obj = await asked.find(start)
        if obj is None:
            _say(out, f"{start} does not exist")
            return ABSENT
        ways = await causes(asked, start, obj)
    # Of causes equally deep the one first that somebody can do something about.
    ways.sort(key=lambda way: (-len(way), not is_known(way[-1])))
    status = (obj.get("status") or {}).get("status") or "no status"
    _say(out, f"{start} is {status}")
    if not ways:
        _say(out, "nothing is in its way")
        return NOTHING
    _print_way(ways[0], out, datetime.now(UTC))
    for way in ways[1:]:
        last = way[-1]
        _say(out, f"also: {last.ref}: {_what(last)}")
    return BLOCKED


@dataclass(slots=True)
class _Asked:
    """Each collection is listed once."""

    kube: KubeClient
    lists: dict[tuple[str, str], list[JsonObject]] = field(default_factory=dict)

    async def find(self, ref: Ref) -> JsonObject | None:
        try:
            return await self.kube.get(ref.kind, ref.name, ref.namespace or None)
        except ApiError as error:
            if not error.is_not_found:
                raise
        # Of a kind that nobody knows there is no object either, and the answer is the same.
        try:
            await self.kube.list(ref.kind, ref.namespace or None, limit=1)
        except ApiError as error:
            if not error.is_not_found:
                raise
            raise UnreachableError(f"the cluster does not know {ref.kind}: install what defines it first") from error
        return None

    async def search(self, kind: Kind[Any], namespace: str) -> Iterable[JsonObject]:
        where = (str(kind), namespace)
        if where not in self.lists:
            self.lists[where] = list((await self.kube.list(kind, namespace or None)).items)
        return self.lists[where]


def _print_way(way: tuple[Link, ...], out: Console, now: datetime) -> None:
    """The cause first, then what waits for it, up to the object that was asked about."""
    for depth, link in enumerate(reversed(way)):
        lead = "because" if depth == 0 else "so"
        _say(out, f"{lead:8}{link.ref}: {_what(link)}{_when(link, now)}")
        if depth == 0:
            _say(out, f"{'do':8}{remedy_of(link)}")


def _what(link: Link) -> str:
    if link.blocker is None:
        return "does not exist"
    condition = f"{link.blocker.condition}={link.blocker.status} " if link.blocker.condition else ""
    return f"{condition}{link.blocker.reason}: {link.blocker.message}"


def _when(link: Link, now: datetime) -> str:
    if link.blocker is None:
        return ""
    parts = [f"for {_age(link.blocker.since, now)}"] if link.blocker.since else []
    parts += [f"says {link.blocker.who}"] if link.blocker.who else []
    return f" ({', '.join(parts)})" if parts else ""


def _age(since: str, now: datetime) -> str:
    seconds = max(0, int((now - datetime.fromisoformat(since)).total_seconds()))
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), (1, "s"))
    return f"{seconds // size}{unit}"


def _say(out: Console, text: str) -> None:
    out.print(safe(text))
