"""ResourceQuotas that have no room for what is planned (FW-885). Pure but for `Cluster`."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from aim_cli.cluster.refs import Cluster, JsonObject, Ref
from aim_cli.installation.overview import GPU
from aim_cli.planning.sandbox import Sandbox
from aim_cli.units import bytes_of, format_size
from aim_domain.kind_names import PERSISTENT_VOLUME_CLAIM, KindName

RESOURCE_QUOTA: Final = KindName("", "v1", "ResourceQuota", "resourcequotas")
_GPUS: Final = f"requests.{GPU}"
_STORAGE: Final = "requests.storage"


@dataclass(frozen=True, slots=True)
class Shortage:
    """A quota that would refuse pods or claims of the plan.

    Attributes:
        resource: as the quota names it; `hard`, `used` and `wanted` are numbers of it, of storage bytes.
    """

    quota: Ref
    resource: str
    hard: int
    used: int
    wanted: int

    @property
    def remedy(self) -> str:
        """What to type."""
        named = f"{self.quota.name} -n {self.quota.namespace}"
        return f"raise it, or delete what counts: kubectl edit resourcequota {named}"

    @property
    def line(self) -> str:
        """For people."""
        left, hard, wanted = map(self._amount, (max(0, self.hard - self.used), self.hard, self.wanted))
        needs = f"{left} of {hard} {self.resource} are left, {wanted} are needed"
        return f"{'quota':10}{self.quota}: {needs}; {self.remedy}"

    @property
    def data(self) -> JsonObject:
        """For ``-o json``."""
        amounts = {"hard": self.hard, "used": self.used, "wanted": self.wanted}
        return {"quota": self.quota.data, "resource": self.resource, **amounts, "remedy": self.remedy}

    def _amount(self, number: int) -> str:
        return format_size(number) if self.resource == _STORAGE else str(number)


def shortages(cluster: Cluster, sandbox: Sandbox, gpus: Iterable[tuple[str, int]]) -> list[Shortage]:
    """Compare what would be created with the quotas of its namespaces.

    Args:
        gpus: those of services that would be created, with their namespaces.
    """
    wanted: dict[str, Counter[str]] = {}
    for namespace, count in gpus:
        wanted.setdefault(namespace, Counter())[_GPUS] += count
    for namespace, size in _new_claims(sandbox):
        wanted.setdefault(namespace, Counter())[_STORAGE] += size
    return [one for namespace, needs in wanted.items() for one in _short(cluster, namespace, needs)]


def _new_claims(sandbox: Sandbox) -> Iterator[tuple[str, int]]:
    for (part, key), where in sandbox.touched.items():
        obj = sandbox.objects.get((part, key))
        is_claim = where.part.kind.resource == PERSISTENT_VOLUME_CLAIM.resource
        if is_claim and obj is not None and sandbox.is_made(where.part, key):
            yield key.namespace, bytes_of(obj["spec"]["resources"]["requests"].get("storage"))


def _short(cluster: Cluster, namespace: str, needs: Counter[str]) -> Iterator[Shortage]:
    for quota in cluster.search(RESOURCE_QUOTA, namespace):
        status, spec = quota.get("status") or {}, quota.get("spec") or {}
        hard, used = status.get("hard") or spec.get("hard") or {}, status.get("used") or {}
        # One with scopes counts some pods only.
        for resource in () if spec.get("scopes") or spec.get("scopeSelector") else needs.keys() & hard.keys():
            limit, taken = bytes_of(hard[resource]), bytes_of(used.get(resource))
            if needs[resource] > max(0, limit - taken):
                ref = Ref(RESOURCE_QUOTA, namespace, quota["metadata"]["name"])
                yield Shortage(ref, resource, limit, taken, needs[resource])
