"""Running ``aim doctor``: cluster and broker, once or until nothing is bad."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from aim_cli import doctor
from aim_cli.answer import Answer
from aim_cli.asking import reading
from aim_cli.bus_state import BusState, bus_state
from aim_cli.doctor import Finding, Mark
from aim_cli.errors import CliError
from aim_cli.running import waited
from aim_cli.targets import Where

_PAUSE: Final = 1.0


@dataclass(frozen=True, slots=True)
class Wish:
    """What to look at; ``patience`` is for how many seconds what is bad may become well."""

    where: Where
    nats_url: str
    before: bool
    patience: float


def diagnose(wish: Wish) -> Answer:
    """Look until nothing is bad, or nobody waits any longer.

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
    if not wish.before:
        state: BusState | None = None
        why_not = "its address is not known; set --nats-url or AIM_NATS_URL"
        if wish.nats_url:
            try:
                state = waited(bus_state(wish.nats_url))
            except CliError as error:
                why_not = str(error)
        found += doctor.bus(state, why_not, datetime.now(UTC))
    return found
