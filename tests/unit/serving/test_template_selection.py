"""Automatic selection, stage by stage (serving.md 7.3 and 7.4)."""

from typing import Any

import pytest

from aim_domain import AIMServiceTemplate, Overrides, canonical_model
from aim_serving.template_selection import Choice, Criteria, Rejection, Stage, Traits, select_template, traits_of
from controller_runtime import JsonObject, StatusValue


def candidate(name: str = "t", status: str = "Ready", *, namespaced: bool = True, **values: Any) -> Traits:
    usual: dict[str, object] = {
        "type": "optimized",
        "metric": "latency",
        "precision": "fp8",
        "gpu_model": "MI300X",
        "gpu_count": 1,
    }
    fields = {**usual, **values}
    return Traits(
        name=name,
        namespaced=namespaced,
        status=StatusValue(status),
        type=str(fields["type"]),
        metric=str(fields["metric"]),
        precision=str(fields["precision"]),
        gpu_model=str(fields["gpu_model"]),
        gpu_count=int(str(fields["gpu_count"])),
    )


def choose(
    *candidates: Traits,
    unoptimized: bool = False,
    overrides: JsonObject | None = None,
    present: tuple[str, ...] = ("MI300X", "MI325X"),
) -> Choice:
    criteria = Criteria(
        allow_unoptimized=unoptimized,
        overrides=None if overrides is None else Overrides.model_validate(overrides),
        gpu_present=lambda model: canonical_model(model) in present,
        normalise=canonical_model,
    )
    return select_template(candidates, criteria)


def chosen(choice: Choice) -> str:
    assert choice.chosen is not None
    return choice.chosen.name


@pytest.mark.spec("SV-095", "SV-104")
def test_availability() -> None:
    statuses = ["Ready", "Pending", "Failed", "NotAvailable", "Progressing", "Degraded", "Odd"]
    choice = choose(*(candidate(status, status) for status in statuses))
    assert chosen(choice) == "Ready"
    assert {one.name: why for one, why in choice.rejected} == {
        "Pending": Rejection.PENDING,
        "Failed": Rejection.FAILED,
        "NotAvailable": Rejection.NOT_AVAILABLE,
        "Progressing": Rejection.PROGRESSING,
        "Degraded": Rejection.DEGRADED,
        "Odd": Rejection.NOT_READY,
    }


@pytest.mark.spec("AT-040", "SV-095")
def test_candidates_that_are_not_ready_drop_out_first() -> None:
    choice = choose(
        candidate("a"),
        candidate("b", "Pending", type="unoptimized"),
        candidate("c", gpu_count=8),
        candidate("d", "Failed"),
        candidate("e", "NotAvailable"),
    )
    assert [one.name for one in choice.usable] == ["a", "c"]
    assert [(one.name, why) for one, why in choice.rejected] == [
        ("b", Rejection.PENDING),
        ("d", Rejection.FAILED),
        ("e", Rejection.NOT_AVAILABLE),
    ]


@pytest.mark.spec("SV-095", "SV-102")
def test_optimisation() -> None:
    untyped = [candidate("u", type="unoptimized"), candidate("p", type="preview"), candidate("n", type="")]
    choice = choose(*untyped)
    assert (choice.emptied_by, choice.before) == (Stage.OPTIMISATION, 3)
    assert chosen(choose(*untyped, candidate("o"))) == "o"
    assert chosen(choose(*untyped, unoptimized=True)) == "p"


@pytest.mark.spec("SV-097")
@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ({"metric": "throughput"}, "b"),
        ({"precision": "fp16"}, "a"),
        ({"hardware": {"gpu": {"requests": 4}}}, "a"),
        ({"hardware": {"gpu": {"model": "mi325x"}}}, "c"),
        ({"metric": "latency", "hardware": {"gpu": {"requests": 8, "model": "Instinct-MI325X"}}}, "c"),
    ],
)
def test_overrides(overrides: JsonObject, name: str) -> None:
    choice = choose(
        candidate("a", precision="fp16", gpu_count=4),
        candidate("b", metric="throughput", gpu_count=8),
        candidate("c", gpu_model="MI325X", gpu_count=8),
        overrides=overrides,
    )
    assert chosen(choice) == name


@pytest.mark.spec("SV-097")
def test_unknown_gpu_does_not_contradict_but_unknown_metric_does() -> None:
    vague = candidate("v", metric="", gpu_model="", gpu_count=0)
    assert chosen(choose(vague, overrides={"hardware": {"gpu": {"model": "MI300X", "requests": 4}}})) == "v"
    assert choose(vague, overrides={"metric": "latency"}).emptied_by is Stage.OVERRIDES


@pytest.mark.spec("SV-043", "SV-096")
def test_gpu_presence() -> None:
    choice = choose(candidate("x", gpu_model="MI325X"), candidate("y", gpu_model="mi300x"), present=("MI300X",))
    assert chosen(choice) == "y"
    assert [why for _, why in choice.rejected] == [Rejection.GPU]
    assert chosen(choose(candidate("cpu", gpu_model=""), present=())) == "cpu"
    assert choose(candidate("x"), present=()).emptied_by is Stage.GPU


@pytest.mark.spec("SV-095")
def test_namespace_before_preference() -> None:
    assert chosen(choose(candidate("far", gpu_model="MI325X", namespaced=False), candidate("near"))) == "near"


@pytest.mark.spec("SV-098", "SV-099", "SV-P33", "SV-P34")
@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"type": "optimized"}, {"type": "unoptimized", "gpu_model": "MI325X"}),
        ({"type": "preview"}, {"type": "unoptimized"}),
        ({"gpu_model": "MI325X", "metric": "throughput"}, {"gpu_model": "MI300X"}),
        ({"gpu_model": "Instinct-MI355X"}, {"gpu_model": "MI300X"}),
        ({"metric": "latency", "precision": "fp32"}, {"metric": "throughput", "precision": "fp4"}),
        ({"metric": "throughput"}, {"metric": ""}),
        ({"precision": "fp8"}, {"precision": "fp16"}),
        ({"precision": "FP4"}, {"precision": "int4"}),
        ({"precision": "fp32"}, {"precision": "auto"}),
    ],
)
def test_preference(better: dict[str, Any], worse: dict[str, Any]) -> None:
    everything = ("MI300X", "MI325X", "MI355X")
    candidates = (candidate("worse", **worse), candidate("better", **better))
    assert chosen(choose(*candidates, unoptimized=True, present=everything)) == "better"


@pytest.mark.spec("SV-100", "SV-099", "SV-P32")
def test_a_tie_selects_nothing() -> None:
    choice = choose(candidate("a", gpu_count=1), candidate("b", gpu_count=8))
    assert (choice.chosen, choice.tied) == (None, 2)


@pytest.mark.spec("SV-101", "SV-093")
def test_the_order_of_candidates_does_not_matter() -> None:
    several = [candidate("a", precision="fp16"), candidate("b", metric="throughput"), candidate("c", namespaced=False)]
    assert choose(*several) == choose(*reversed(several))


@pytest.mark.spec("SV-094")
def test_where_traits_come_from() -> None:
    found = {"metric": "throughput", "precision": "fp16", "gpu": " MI210 ", "gpuCount": 2, "type": "unoptimized"}
    template = AIMServiceTemplate.model_validate(
        {
            "metadata": {"name": "t", "namespace": "ml"},
            "spec": {"metric": "latency", "precision": "fp8", "type": "optimized"},
            "status": {"status": "Ready", "profile": {"metadata": found}},
        }
    )
    traits = traits_of(template)
    assert (traits.metric, traits.precision, traits.type) == ("throughput", "fp16", "optimized")
    assert (traits.gpu_model, traits.gpu_count, traits.namespaced) == ("MI210", 2, True)
    specified = {"metric": "latency", "precision": "fp8", "hardware": {"gpu": {"model": "MI300X", "requests": 4}}}
    undiscovered = traits_of(AIMServiceTemplate.model_validate({"spec": specified}))
    assert (undiscovered.metric, undiscovered.precision, undiscovered.type) == ("latency", "fp8", "")
    assert (undiscovered.gpu_model, undiscovered.gpu_count) == ("MI300X", 4)
    both = {"spec": specified, "status": {"status": "Ready", "profile": {"metadata": found}}}
    traits = traits_of(AIMServiceTemplate.model_validate(both))
    assert (traits.metric, traits.precision, traits.type) == ("throughput", "fp16", "unoptimized")
    assert (traits.gpu_model, traits.gpu_count) == ("MI300X", 4), "of the GPU the spec counts first"
