"""What a scenario is, and in which order cases run: pure but for the clock that it is given."""

import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Run: TypeAlias = Callable[[Any, random.Random], Coroutine[Any, Any, "Outcome"]]


GOOD, FAILED, IDLE = "good", "failed", "nothing happened"


@dataclass(slots=True)
class Outcome:
    """What came of one case.

    Attributes:
        injected: what went wrong on purpose, and how often.
        compared: how many objects or plans were held against what is right.
        differences: what is not; empty is good.
        notes: figures worth telling, such as seconds until caught up.
    """

    injected: Counter[str] = field(default_factory=Counter)
    compared: int = 0
    differences: list[str] = field(default_factory=list)
    notes: dict[str, float] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """In a word; what injected nothing, or compared nothing, has shown nothing."""
        if self.differences:
            return FAILED
        return GOOD if self.injected.total() and self.compared else IDLE

    def add(self, other: "Outcome") -> None:
        """Take in another one."""
        self.injected += other.injected
        self.compared += other.compared
        self.differences += other.differences
        for name, value in other.notes.items():
            self.notes[name] = max(value, self.notes.get(name, value))


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to try; its name repeats it.

    Attributes:
        platform: whether it needs one to run against.
        needs: seconds that a run must have for it, unless it is asked for by name.
        on_request: only when it is asked for by name: it narrows down what another case has found.
    """

    scenario: str
    name: str
    run: Run
    platform: bool = True
    needs: float = 0.0
    on_request: bool = False

    def __str__(self) -> str:
        return f"{self.scenario}/{self.name}" if self.name else self.scenario

    def chance(self, seed: int) -> random.Random:
        """Randomness of this case under a seed, whatever else ran before."""
        return random.Random(f"{seed} {self}")


@dataclass(frozen=True, slots=True)
class Scenario:
    """A row of the matrix.

    Attributes:
        compares: what its cases compare, for the table.
        cases: all of them; their order is drawn from the seed.
        on_real: whether it also runs against real programs.
    """

    id: str
    title: str
    compares: str
    cases: Callable[[], Sequence[Case]]
    on_real: bool = False


class UnknownCaseError(ValueError):
    """`ONLY` names something that does not exist."""


def selected(scenarios: Sequence[Scenario], only: str, seconds: float) -> dict[str, list[Case]]:
    """The cases that ``only`` names, by scenario: ``R6,R8``, or ``R1/serving-7`` for a single case; empty = all.

    Whole scenarios leave out what takes longer than the run, and what is there on request.

    Raises:
        UnknownCaseError: it names none.
    """
    every = {scenario.id: list(scenario.cases()) for scenario in scenarios}
    usual = {
        name: [one for one in cases if one.needs <= seconds and not one.on_request] for name, cases in every.items()
    }
    if not only:
        return usual
    found: dict[str, list[Case]] = {}
    for wanted in filter(None, (part.strip() for part in only.split(","))):
        matching = usual.get(wanted) or [one for cases in every.values() for one in cases if str(one) == wanted]
        if not matching:
            raise UnknownCaseError(f"there is no {wanted}; there are {', '.join(every)}")
        for one in matching:
            found.setdefault(one.scenario, []).append(one)
    return found


def rounds(cases: Mapping[str, Sequence[Case]], seed: int) -> Iterator[list[Case]]:
    """One case of each scenario after the other, in an order that the seed decides, until all were tried."""
    chance = random.Random(seed)
    shuffled = {name: chance.sample(list(some), len(some)) for name, some in cases.items()}
    for number in range(max(map(len, shuffled.values()), default=0)):
        reached = [some[number] for some in shuffled.values() if number < len(some)]
        yield chance.sample(reached, len(reached))
