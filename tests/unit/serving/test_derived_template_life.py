"""A derived template without its base, without a free name, among others, and out of sight (SV-086, SV-266)."""

import pytest
from support.builders import owner
from support.serving import (
    TEAM,
    aim_service,
    condition_of,
    message_of,
    model,
    overall,
    plan_for,
    serving_cache,
    template,
)

from aim_domain import Overrides, labels
from aim_domain.parts import TEMPLATES
from aim_serving.derived_template import derived_name
from controller_runtime import JsonObject

OVERRIDES = {"precision": "fp16"}
NAME = derived_name("t", Overrides.model_validate(OVERRIDES))
SERVICE = aim_service(template={"name": "t"}, overrides=OVERRIDES)


def wanted_spec() -> JsonObject:
    """What a derived template of ``t`` has to say."""
    made = plan_for(serving_cache(SERVICE, model(), template("t"))).children[0].body
    return dict(made["spec"])


def as_made(name: str = NAME, *owners: JsonObject, ours: bool = True) -> JsonObject:
    own = template(name, precision="fp16", metadata={"owners": list(owners)})
    own["metadata"]["labels"] = {labels.ORIGIN: labels.ORIGIN_DERIVED} if ours else {}
    return {**own, "spec": wanted_spec()}


def used(*objects: JsonObject) -> str | None:
    plan = plan_for(serving_cache(SERVICE, model(), *objects))
    assert plan.status is not None
    found = plan.status.get("resolvedTemplate")
    return None if found is None else str(found["name"])


@pytest.mark.spec("SV-086")
def test_a_derived_template_outlives_its_base() -> None:
    plan = plan_for(serving_cache(SERVICE, model(), as_made()))
    assert plan.status is not None
    assert plan.status["resolvedTemplate"]["name"] == NAME
    (patch,) = plan.patches
    assert (patch.name, patch.body["metadata"]["ownerReferences"][0]["name"]) == (NAME, "qwen-chat")


@pytest.mark.spec("SV-086")
def test_what_only_has_the_name_of_a_derived_template_serves_nobody() -> None:
    assert used(as_made(ours=False)) is None
    other = as_made()
    other["spec"] = {**other["spec"], "precision": "fp8"}
    other["status"]["profile"]["metadata"]["precision"] = "fp8"
    assert used(other) is None
    plan = plan_for(serving_cache(aim_service(template={"name": "t"}), model(), as_made()))
    assert condition_of(plan, "TemplateReady") == ("False", "TemplateNotFound")


@pytest.mark.spec("SV-086", "FW-019")
def test_templates_out_of_sight_are_no_absence() -> None:
    for around in ((template("t"),), ()):
        cache = serving_cache(SERVICE, model(), *around)
        cache.make_stale(TEMPLATES)
        plan = plan_for(cache)
        assert plan.children == ()
        if not around:
            assert condition_of(plan, "TemplateReady") == ("False", "ViewStale")


@pytest.mark.spec("SV-265")
def test_when_both_names_are_taken_the_message_says_what_to_delete() -> None:
    second = plan_for(serving_cache(SERVICE, model(), template("t"), template(NAME))).children[0].name
    plan = plan_for(serving_cache(SERVICE, model(), template("t"), template(NAME), template(second)))
    assert plan.children == ()
    assert message_of(plan, "TemplateReady") == (
        f"no name is free for the derived template of AIMServiceTemplate {TEAM}/t; delete {second}"
    )
    assert overall(plan) == "Pending"


@pytest.mark.spec("SV-266", "FW-213")
def test_who_moves_on_leaves_the_derived_template_to_the_others() -> None:
    moved, other = aim_service(template={"name": "t"}), aim_service("other")
    shared = as_made(NAME, {**owner(moved), "controller": None}, {**owner(other), "controller": None})
    plan = plan_for(serving_cache(moved, other, model(), template("t"), shared))
    assert plan.deletes == ()
    (patch,) = plan.patches
    assert [one["name"] for one in patch.body["metadata"]["ownerReferences"]] == ["other"]
    waiting = plan_for(serving_cache(moved, other, model(), template("t", status="Progressing"), shared))
    assert waiting.patches == (), "not before it has another one"
    going = {**shared, "metadata": {**shared["metadata"], "deletionTimestamp": "2026-11-21T12:00:00Z"}}
    assert plan_for(serving_cache(moved, other, model(), template("t"), going)).patches == ()
