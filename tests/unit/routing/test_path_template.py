"""Path templates: grammar, values, normalisation, errors."""

from typing import Any

import pytest
from support.builders import make

from aim_domain import AIMService
from aim_domain.kinds import AIM_SERVICE
from aim_domain.path_template import PathTemplateError, parse, template_problems
from aim_routing.path import PathProblem, normalise, path_of, render
from controller_runtime import JsonObject


def service(**members: Any) -> AIMService:
    body = {
        "uid": "12345678-90ab",
        "labels": {"team.io/x": "Core_Team"},
        "annotations": {"route.suffix": "Team-A/B", "empty": " "},
        "spec": {
            "model": {"name": "Meta/Llama-3-8B"},
            "replicas": 3,
            "overrides": {"hardware": {"gpu": {"requests": 2}}},
        },
        **members,
    }
    return AIMService.model_validate(make(AIM_SERVICE, "Chat", namespace="Testing", **body))


@pytest.mark.spec("RT-071", "RT-072")
@pytest.mark.parametrize("template", [None, ""])
def test_without_template_the_path_is_namespace_and_uid(template: str | None) -> None:
    assert path_of(service(), template).value == "/testing/12345678-90ab"


@pytest.mark.spec("RT-073", "RT-074", "RT-075", "RT-076", "RT-077", "RT-080", "RT-091", "RT-092")
@pytest.mark.parametrize(
    ("template", "path"),
    [
        ("/{.metadata.namespace}/{ .metadata.name }", "/testing/chat"),
        ("/{$.spec.model.name}", "/meta-llama-3-8b"),
        ("/{.spec.replicas}", "/3"),
        ("/{.metadata.labels['team.io/x']}", "/core-team"),
        ('/{.metadata.labels["team.io/x"]}', "/core-team"),
        ("/{.metadata.labels.team\\.io/x}", "/core-team"),
        ("/{.metadata.annotations['route.suffix']}", "/team-a/b"),
        ("/{.metadata.annotations.route\\.suffix}", "/team-a-b"),
        ("/{.metadata.labels['team\\.io/x']}", "/core-team"),
        ('/{.metadata.labels["team\\.io/x"]}', "/core-team"),
        ("/{.metadata.annotations['route\\.suffix']}", "/team-a/b"),
        ("/{.metadata.annotations['r\\oute.s\\uffix']}", "/team-a/b"),
        ("/{.metadata.name}.spec.x", "/chat-spec-x"),
        ("/.well-known/{.metadata.name}", "/well-known/chat"),
        ("/", "/"),
    ],
)
def test_placeholders_are_replaced(template: str, path: str) -> None:
    assert path_of(service(), template).value == path


@pytest.mark.spec("RT-080")
def test_scalars_are_rendered_as_json_has_them() -> None:
    values: JsonObject = {"count": 3, "part": 1.5, "yes": True, "no": False, "none": None, "many": ["a"]}
    rendered = [render(f"{{.{name}}}", values) for name in ("count", "part", "yes", "no")]
    # A dot becomes a hyphen, as in every segment (RT-092).
    assert rendered == ["3", "1-5", "true", "false"]
    for name in ("none", "many"):
        with pytest.raises(PathTemplateError, match="not a string, number or boolean"):
            render(f"{{.{name}}}", values)


@pytest.mark.spec("RT-078", "RT-P05")
@pytest.mark.parametrize(
    ("expression", "path"),
    [
        (".spec.runtimeConfigName", "/batch-jobs"),
        (".spec['runtimeConfigName']", "/batch-jobs"),
        ('.spec["model"].name', "/meta-llama-3-8b"),
        (".spec['model']['name']", "/meta-llama-3-8b"),
        (".spec.overrides.hardware.gpu.requests", "/2"),
        (".spec.runtime_config_name", None),
        (".spec.RuntimeConfigName", None),
        (".Spec.Model.Name", None),
    ],
)
def test_fields_have_the_names_of_the_api(expression: str, path: str | None) -> None:
    obj = service()
    given = obj.model_copy(update={"spec": obj.spec.model_copy(update={"runtime_config_name": "batch-jobs"})})
    found = path_of(given, f"/{{{expression}}}")
    assert (found.value, found.problem) == ((path, None) if path else ("", PathProblem.INVALID))


@pytest.mark.spec("RT-077", "RT-079")
@pytest.mark.parametrize(
    ("expression", "path"),
    [
        (".a[0].n", "/one"),
        (".a[-1].n", "/two"),
        (".a[1:2].n", "/two"),
        ('.a[?(@.n=="two")].v', "/7"),
        (".a[?(@.v>6)].n", "/two"),
        (".a[?(@.v<=6)].n", "/one"),
    ],
)
def test_lists_are_addressed(expression: str, path: str) -> None:
    listed = service(spec={"a": [{"n": "one", "v": 5}, {"n": "two", "v": 7}]})
    assert path_of(listed, f"/{{.spec{expression}}}").value == path


@pytest.mark.spec("RT-079", "RT-080", "RT-093", "RT-107", "RT-110", "RT-113")
@pytest.mark.parametrize(
    ("template", "cause"),
    [
        ("/{.metadata.labels['nope']}", "label 'nope' not found"),
        ("/{.metadata.annotations['nope']}", "annotation 'nope' not found"),
        ("/{.metadata.annotations['empty']}", "the value is empty"),
        ("/{.spec.nothing}", "no result"),
        ("/{.spec.model}", "not a string, number or boolean"),
        ("/{ }", "invalid expression"),
        ("/{.spec..name}", "invalid expression"),
        ("/{.spec.*}", "invalid expression"),
        ("/{name}", "invalid expression"),
        ("/{.metadata.name", "braces do not match at '/{.metadata.name'"),
        ("/.metadata.name}", "braces do not match at '/.metadata.name}'"),
        ("/a}/{.metadata.name}", "braces do not match at '/a}/'"),
        ("/{.metadata.namespace/{.metadata.name}", "braces do not match at '/{.metadata.namespace/'"),
        ("/{{.metadata.name}}", "braces do not match at '/{'"),
        ("/{{ .metadata.name }}", "braces do not match at '/{'"),
        ("/x{}/y", "the braces {} are empty"),
        ("/.metadata.namespace/{.metadata.name}", "'.metadata.namespace', it has no braces"),
        ("$.metadata.name", "write {.metadata.name}"),
        ("/.metadata.labels['a']", "it has no braces"),
        ("/{.metadata.labels['team.io/x\\']}", "invalid expression"),
        ("/{.metadata.labels['team.io/x}", "invalid expression"),
        ("/___/", "would capture all traffic"),
        ("/" + "a" * 201, "longer than 200"),
    ],
)
def test_errors_name_expression_and_cause(template: str, cause: str) -> None:
    outcome = path_of(service(), template)
    assert outcome.problem is PathProblem.INVALID
    assert cause in outcome.message


@pytest.mark.spec("RT-115")
def test_a_status_field_that_is_not_populated_is_waited_for() -> None:
    assert path_of(service(), "/{.status.resolvedModel.name}").problem is PathProblem.NOT_YET
    assert path_of(service(), "/{.status.noSuchField}").problem is PathProblem.INVALID


@pytest.mark.spec("RT-100", "RT-101", "RT-102", "RT-103", "RT-104", "RT-105", "RT-106", "RT-108")
@pytest.mark.parametrize(
    ("rendered", "path"),
    [
        ("/Testing/workload-42/", "/testing/workload-42"),
        ("//a///b//", "/a/b"),
        ("models/qwen", "/models/qwen"),
        ("/my_path/v1.0", "/my-path/v1-0"),
        ("/a b/c", "/a-b/c"),
        ("/---/x", "/x"),
        ("/" + "x" * 70, "/" + "x" * 63),
    ],
)
def test_normalisation(rendered: str, path: str) -> None:
    assert normalise(rendered) == path


@pytest.mark.spec("RT-100", "RT-102", "RT-106")
@pytest.mark.parametrize("rendered", ["", "   ", "/".join(["", *["x" * 63] * 4]), "/" + "é" * 100])
def test_unusable_paths_are_refused(rendered: str) -> None:
    with pytest.raises(PathTemplateError):
        normalise(rendered)


@pytest.mark.spec("RT-075", "RC-072")
@pytest.mark.parametrize(
    "template", ["/{.metadata.name", "/.metadata.name}", "/{}", "/.metadata.name", "/{{.metadata.name}}"]
)
def test_a_config_reports_braces_without_a_service(template: str) -> None:
    assert template_problems(template)


def test_steps_of_an_expression_are_typed() -> None:
    assert len(parse("$.a.b[0]['c d']")) == 4
