"""What holds for all sizes, environments, filters and failed pods."""

import json
from math import ceil

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.artifacts import artifact
from support.builders import make

from aim_artifacts.claim import claimed_bytes
from aim_artifacts.downloader_contract import FailureCategory, parse_selection
from aim_artifacts.job_health import inspect_job_pods
from aim_artifacts.jobs import check_size_environment, download_environment, effective_filter
from aim_domain import AIMArtifact, RuntimeConfigSpec, masked, merge_env
from aim_domain.storage_limits import whole_bytes
from controller_runtime import JsonObject, State, volume_size
from controller_runtime.core import EnvVar, Pod
from controller_runtime.kinds import POD

GI = 1 << 30
SIZES = st.integers(1, 1 << 50) | st.integers(0, 50).map(lambda power: 1 << power)
PERCENT = st.integers(0, 500)
SECRET = "hf_abcdefghijklmnop"


@pytest.mark.spec("AR-200", "AR-445")
@given(SIZES, PERCENT)
def test_a_volume_holds_the_weights_with_their_headroom_and_less_than_a_gib_more(size: int, percent: int) -> None:
    volume = whole_bytes(volume_size(size, percent))
    needed = size * (100 + percent) // 100
    assert volume % GI == 0
    assert volume >= max(needed, GI)
    assert volume - GI < max(needed, GI)


@pytest.mark.spec("AR-200", "AR-201")
@given(SIZES, SIZES, PERCENT)
def test_larger_weights_never_get_a_smaller_volume_nor_does_more_headroom(one: int, other: int, percent: int) -> None:
    config = RuntimeConfigSpec.model_validate({"storage": {"pvcHeadroomPercent": percent}})
    known = AIMArtifact.model_validate(artifact())
    small, large = sorted((one, other))
    assert claimed_bytes(known, config, small) <= claimed_bytes(known, config, large)
    assert whole_bytes(volume_size(small, percent)) <= whole_bytes(volume_size(small, percent + 1))


@pytest.mark.spec("AR-203")
@given(st.integers(1, 1 << 32), st.sampled_from(["", "k", "Ki", "Mi", "Gi", "m"]))
def test_a_quantity_is_never_rounded_down(number: int, unit: str) -> None:
    factor = {"": 1, "k": 1000, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": GI, "m": 1 / 1000}[unit]
    exact = ceil(number / 1000) if unit == "m" else number * int(factor)
    assert whole_bytes(f"{number}{unit}") == exact


NAMES = st.sampled_from(["HF_TOKEN", "HF_HOME", "STALL_TIMEOUT", "ARTIFACT_NAME", "TARGET_DIR", "A", "B", "MOUNT_PATH"])
VARIABLES = st.dictionaries(NAMES, st.text(max_size=3), max_size=5)
FIXED = {"ARTIFACT_NAME", "ARTIFACT_NAMESPACE", "MOUNT_PATH", "AIM_DOWNLOAD_FILTER"}


def listed(variables: dict[str, str]) -> list[JsonObject]:
    return [{"name": name, "value": value} for name, value in variables.items()]


@pytest.mark.spec("AR-153", "AR-261", "AR-262")
@given(VARIABLES, VARIABLES)
def test_each_variable_comes_once_from_whoever_comes_first(own: dict[str, str], configured: dict[str, str]) -> None:
    known = AIMArtifact.model_validate(artifact(spec={"env": listed(own)}))
    config = RuntimeConfigSpec.model_validate({"env": listed(configured)})
    for made in (download_environment(known, config, 12), check_size_environment(known, config)):
        names = [one.name for one in made]
        assert sorted(set(names)) == sorted(names)
        values = {one.name: one.value for one in made}
        wanted = configured | own
        assert {name: values[name] for name in wanted if name not in FIXED} == {
            name: value for name, value in wanted.items() if name not in FIXED
        }
    values = {one.name: one.value for one in download_environment(known, config, 12)}
    assert (values["ARTIFACT_NAME"], values["MOUNT_PATH"]) == (known.name, "/cache")


@pytest.mark.spec("FW-277")
@given(st.lists(st.lists(st.tuples(NAMES, st.text(max_size=2)), max_size=4), max_size=4))
def test_merging_is_the_same_in_one_step_and_in_many(levels: list[list[tuple[str, str]]]) -> None:
    variables = [[EnvVar(name=name, value=value) for name, value in level] for level in levels]
    step: tuple[EnvVar, ...] = ()
    for level in variables:
        step = merge_env(step, level)
    assert step == merge_env(*variables)
    assert merge_env(step, step) == step


PATTERNS = st.lists(st.text(alphabet="ab*?/.[]!", max_size=5), max_size=3)
FILTERS = st.fixed_dictionaries({}, optional={"include": PATTERNS, "exclude": PATTERNS})
PATHS = st.lists(st.text(alphabet="ab/.", min_size=1, max_size=6), max_size=6, unique=True)


@pytest.mark.spec("AR-402", "AR-403", "AR-406", "AR-408")
@given(FILTERS, PATHS)
def test_a_filter_selects_the_same_on_its_way_to_the_program(value: dict[str, list[str]], paths: list[str]) -> None:
    known = AIMArtifact.model_validate(artifact(spec={"downloadFilter": value}))
    selected = parse_selection(effective_filter(known, RuntimeConfigSpec())).select(paths)
    include, exclude = value.get("include"), value.get("exclude")
    if not exclude:
        everything = parse_selection(json.dumps({"include": include or []})).select(paths)
        assert selected == everything
        assert include or selected == paths
    kept = parse_selection(json.dumps({"exclude": exclude or []})).select(paths)
    assert set(selected) <= set(kept), "what is excluded no include brings back"


TEXTS = st.text(max_size=12) | st.just(f"token {SECRET} was refused")
MESSAGES = (
    TEXTS
    | st.builds(
        lambda category, message: json.dumps({"category": category, "message": message}),
        st.sampled_from(list(FailureCategory)) | st.none() | st.integers() | st.lists(st.text(max_size=2), max_size=1),
        TEXTS | st.none() | st.integers() | st.lists(TEXTS, max_size=1),
    )
    | st.sampled_from(["[]", "7", "null", '"Auth"', "{}"])
)
CODES = st.sampled_from([0, 1, 2, 10, 11, 12, 13, 14, 15, 16, 137, 143, 255])
FINAL = {"AuthError", "SourceNotFound", "StorageFull", "NoMatchingFiles"}


def failed_pod(code: int, message: str, reason: str) -> Pod:
    terminated = {"exitCode": code, "message": message, "reason": reason or "Error"}
    status = {
        "phase": "Failed",
        "reason": reason,
        "containerStatuses": [{"name": "model-download", "state": {"terminated": terminated}}],
    }
    return Pod.model_validate(make(POD, "p", status=status))


@pytest.mark.spec("AR-349", "AR-350", "AR-353", "FW-090")
@given(CODES, MESSAGES, st.sampled_from(["", "Evicted", "OOMKilled", "DeadlineExceeded"]), TEXTS, st.booleans())
@example(1, '{"category":["a"]}', "", "", True)
def test_whatever_a_pod_leaves_it_is_one_cause_that_is_reported_and_holds_no_secret(
    code: int, message: str, reason: str, tail: str, job_failed: bool
) -> None:
    """Logs are masked as they are read."""
    pod = failed_pod(code, message, reason)
    component = inspect_job_pods(
        "Pods", [pod], job_failed=job_failed, log_of=lambda _: masked(tail), events_of=lambda *_: ()
    )
    reported = [component.message, *(error.message for error in component.errors)]
    reasons = {component.reason, *(error.reason for error in component.errors)} - {""}
    assert SECRET not in str(reported)
    assert reasons
    is_final = bool(component.errors) or component.state is State.FAILED
    assert is_final == (job_failed or bool(reasons & FINAL))
    if not is_final:
        assert component.state is State.PROGRESSING
