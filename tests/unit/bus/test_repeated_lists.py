"""What a list repeats is taken over from what is known: a comparison holds nothing twice."""

import pytest
from support.cache_objects import WIDGET, widget, widgets

from controller_runtime import JsonObject, Key
from controller_runtime.kube.reflector_state import Item, KnownVersions, ListComplete, Restarted
from controller_runtime.log.publish.source import Source, published


def objects(*versions: int) -> list[JsonObject]:
    return [widget(f"w{number}", f"u{number}", version, note="x" * 500) for number, version in enumerate(versions)]


@pytest.mark.spec("FW-499")
def test_a_list_takes_in_only_what_differs() -> None:
    source = Source(widgets())
    form = published(widgets(), source.present.get)
    source.take(Restarted(tuple(map(form, objects(1, 2, 3))), "10"))
    present, before = source.present, dict(source.present)
    reported = tuple(map(form, objects(1, 20)))
    assert reported[0] is before[Key("ns", "w0")], "not even packed again"
    source.take(Restarted(reported, "20"))
    assert source.present is present
    assert list(present) == [Key("ns", "w0"), Key("ns", "w1")]
    assert present[Key("ns", "w0")] is before[Key("ns", "w0")]
    assert present[Key("ns", "w1")].resource_version == "20"


@pytest.mark.spec("FW-499")
@pytest.mark.parametrize("changed", [widget("w", "u", 1, note="restored"), widget("w", "another", 1, note="first")])
def test_another_content_under_the_same_version_is_taken_in(changed: JsonObject) -> None:
    """As after the restore of a cluster's store."""
    source = Source(widgets())
    form = published(widgets(), source.present.get)
    source.take(Restarted((form(widget("w", "u", 1, note="first")),), "10"))
    source.take(Restarted((form(changed),), "10"))
    assert source.present[Key("ns", "w")] == published(widgets())(changed)


@pytest.mark.spec("FW-499")
def test_the_identity_of_what_is_known_is_the_one_that_is_known() -> None:
    known, (first, second) = KnownVersions(WIDGET), objects(1, 2)
    identities = [known.identity_of(one) for one in (first, second)]
    known.replace(ListComplete(tuple(Item(identity, None) for identity in identities), "10"))
    assert [known.identity_of(one) for one in (first, second)] == identities
    assert known.identity_of(first) is identities[0]
    changed = {**second, "metadata": {**second["metadata"], "resourceVersion": "5"}}
    assert known.identity_of(changed).resource_version == "5"
