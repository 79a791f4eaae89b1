"""Lists of names in messages, and whom a model belongs to."""

import pytest
from support.builders import make, owner

from aim_domain import AIMClusterModel
from aim_domain.kinds import AIM_CLUSTER_MODEL, AIM_CLUSTER_MODEL_SOURCE
from aim_model_sync.catalogue import controllers
from aim_model_sync.conditions import count_of, shortened, some


@pytest.mark.spec("MS-281")
@pytest.mark.parametrize(
    ("names", "text"),
    [("", ""), ("a", "a"), ("abcde", "a, b, c, d, e"), ("abcdef", "a, b, c, d, e and 1 more")],
)
def test_the_first_five_names_and_how_many_more(names: str, text: str) -> None:
    assert some(names) == text


@pytest.mark.spec("MS-280")
def test_a_text_is_cut_at_its_limit() -> None:
    assert (shortened("abc", 3), shortened("abcd", 3)) == ("abc", "ab…")
    assert (count_of(0, "model"), count_of(1, "model"), count_of(2, "model")) == (
        "0 models",
        "1 model",
        "2 models",
    )


@pytest.mark.spec("MS-175", "MS-240")
def test_only_sources_that_control_a_model_count() -> None:
    source = make(AIM_CLUSTER_MODEL_SOURCE, "catalog")
    other = {**owner(source), "kind": "Gadget", "uid": "gadget"}
    owners = (owner(source), owner(source, controller=False) | {"uid": "no-controller"}, other)
    model = AIMClusterModel.model_validate(make(AIM_CLUSTER_MODEL, "m", owners=owners, spec={"image": "a/b:1"}))
    assert controllers(model) == (source["metadata"]["uid"],)
