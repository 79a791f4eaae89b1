"""Running ``aim doctor``: cluster and broker, once or until nothing is bad."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from aim_cli.answer import Answer
from aim_cli.cluster.asking import reading
from aim_cli.cluster.broker import brokers as brokers_in
from aim_cli.cluster.broker import names_of
from aim_cli.cluster.refs import JsonObject
from aim_cli.cluster.targets import HERE, Where
from aim_cli.errors import CliError
from aim_cli.installation import doctor
from aim_cli.installation.bus_state import bus_state
from aim_cli.installation.doctor import Finding, Mark
from aim_cli.running import waited

_PAUSE: Final = 1.0


@dataclass(frozen=True, slots=True)
class Wish:
    """What to look at; ``patience`` is for how many seconds what is bad may become well."""

    where: Where
    nats_url: str
    before: bool
    patience: float


def diagnose(wish: Wish) -> Answer:
    """Look until nothing is bad, or the wait is over.

    Raises:
        UnreachableError: the cluster does not answer.
    """
    until = time.monotonic() + wish.patience
    while True:
        try:
            findings = _look(wish)
        except CliError:
            if time.monotonic() >= until:
                raise
        else:
            if time.monotonic() >= until or not any(one.mark is Mark.BAD for one in findings):
                return doctor.answer(findings)
        time.sleep(_PAUSE)


def _look(wish: Wish) -> list[Finding]:
    with reading(wish.where.kubeconfig, wish.where.context) as cluster:
        found = list(doctor.examine(cluster, before=wish.before))
        brokers = [] if wish.before else brokers_in(cluster)
    return found if wish.before else [*found, *of_broker(wish.nats_url, brokers, wish.where)]


def of_broker(url: str, brokers: list[JsonObject], where: Where = HERE) -> list[Finding]:
    """What the broker at an address tells; that it tells nothing is bad, as no service could work (FW-710)."""
    names = names_of(brokers, where)
    if not url:
        return [doctor.unasked_broker(names=names)]
    try:
        state = waited(bus_state(url, where=where))
    except CliError as error:
        return [doctor.unasked_broker(str(error), names)]
    return list(doctor.bus(state, datetime.now(UTC), brokers))
