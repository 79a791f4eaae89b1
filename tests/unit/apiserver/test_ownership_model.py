"""Random histories of applies and updates of one granular map, against a model of ownership in a few lines."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from support.apiserver_ownership import apply, owned, update
from support.apiserver_schemas import widget

from controller_runtime import JsonObject
from embedded_apiserver.objects.fieldmanager import ApplyConflict

MANAGERS = ("one", "two", "three")


@dataclass(frozen=True)
class Step:
    """One request: the whole map that the manager wants."""

    manager: str
    data: dict[str, str]
    updates: bool
    force: bool


@dataclass
class Model:
    """The map, and who owns its keys."""

    data: dict[str, str] = field(default_factory=dict)
    owners: dict[str, set[tuple[str, bool]]] = field(default_factory=dict)

    def conflicts(self, step: Step) -> set[str]:
        """Keys of other managers that the step would change."""
        me = (step.manager, False)
        return {
            key
            for key, value in step.data.items()
            if self.data.get(key, value) != value and self.owners.get(key, set()) - {me}
        }

    def run(self, step: Step) -> None:
        """Carry out a step that has no conflicts, or force."""
        if step.updates:
            self._update(step)
            return
        me = (step.manager, False)
        for key in [key for key, owners in self.owners.items() if me in owners and key not in step.data]:
            self.owners[key].discard(me)
            if not self.owners[key]:
                del self.data[key], self.owners[key]
        for key, value in step.data.items():
            if self.data.get(key) != value:
                self.owners[key] = set()
            self.owners[key].add(me)
            self.data[key] = value

    def _update(self, step: Step) -> None:
        for key in self.data.keys() - step.data.keys():
            self.owners.pop(key)
        for key, value in step.data.items():
            if self.data.get(key) != value:
                self.owners[key] = {(step.manager, True)}
        self.data = dict(step.data)

    def owned(self, manager: str) -> set[str]:
        """Keys of a manager."""
        return {key for key, owners in self.owners.items() if any(name == manager for name, _ in owners)}


STEPS = st.builds(
    Step,
    manager=st.sampled_from(MANAGERS),
    data=st.dictionaries(st.sampled_from("abcd"), st.sampled_from("xy"), max_size=4),
    updates=st.booleans(),
    force=st.booleans(),
)


# An entry that nobody else touches keeps the map itself from coming and going.
KEPT = {"kept": "k"}


def run(live: JsonObject, step: Step) -> JsonObject:
    """Carry out a step for real."""
    if step.updates:
        return update(live, widget(data=step.data | KEPT), step.manager)
    return apply(live, widget(data=step.data), step.manager, force=step.force)


@given(st.lists(STEPS, min_size=1, max_size=8))
def test_ownership_follows_the_model(steps: list[Step]) -> None:
    model, live = Model(), apply(None, widget(data=KEPT), "keeper")
    for step in steps:
        refused = not step.updates and not step.force and model.conflicts(step)
        if refused:
            try:
                run(live, step)
            except ApplyConflict as conflict:
                keys = {found.path.removeprefix(".spec.data.") for found in conflict.conflicts}
                assert keys == refused
                continue
            raise AssertionError(f"no conflict over {refused}")
        live = run(live, step)
        model.run(step)
        assert live["spec"]["data"] == model.data | KEPT
        for manager in MANAGERS:
            leaves = {path for path in owned(live, manager) if path.startswith(".spec.data.")}
            assert leaves == {f".spec.data.{key}" for key in model.owned(manager)}
