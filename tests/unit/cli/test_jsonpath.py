"""Templates of `-o jsonpath=` give what kubectl gives for them."""

import pytest

from aim_cli.errors import TargetError
from aim_cli.jsonpath import Template

DATA = {
    "attention": [
        {"object": {"kind": "AIMService", "namespace": "demo", "name": "chat"}, "state": "Failed", "count": 2},
        {"object": {"kind": "AIMModel", "namespace": "demo", "name": "mine"}, "state": "Degraded", "count": 0},
    ],
    "labels": {"app.kubernetes.io/name": "aim", "a-b": True},
}


@pytest.mark.spec("FW-881")
@pytest.mark.parametrize(
    ("template", "printed"),
    [
        ("{.attention[*].object.name}", "chat mine"),
        ("{$.attention[0].state}", "Failed"),
        ("{.attention[-1:].state}", "Degraded"),
        ("{.attention[1].count} of {.attention[0].count}", "0 of 2"),
        (".attention[0].state", "Failed"),
        ("attention[0].state", "Failed"),
        ('{.attention[?(@.state=="Failed")].object.name}', "chat"),
        ("{.attention[0].object['kind','name']}", "AIMService chat"),
        ("{..name}", "chat mine"),
        (r"{.labels.app\.kubernetes\.io/name}", "aim"),
        ("{.labels['app.kubernetes.io/name']}", "aim"),
        ("{.labels.a-b}", "true"),
        ("{.labels}", '{"app.kubernetes.io/name": "aim", "a-b": true}'),
        ("{.missing}", ""),
        ("none: {.missing.deeper[0]}", "none: "),
        (
            r"""{range .attention[*]}{.object.namespace}{"/"}{.object.name}{'\t'}{@.state}{"\n"}{end}""",
            "demo/chat\tFailed\ndemo/mine\tDegraded\n",
        ),
        ("{range .attention[*]}{range .object}{.name},{end};{end}", "chat,;mine,;"),
        ('{"{}"}', "{}"),
    ],
)
def test_what_a_template_prints(template: str, printed: str) -> None:
    assert Template.parse(template).applied(DATA) == printed


@pytest.mark.spec("FW-881", "FW-554")
def test_text_of_users_cannot_move_the_cursor() -> None:
    assert Template.parse("{.why}").applied({"why": "a\x1b[2Jb\nc"}) == "a [2Jb c"


@pytest.mark.spec("FW-881")
@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("", "is empty"),
        ("{.attention[", "a brace is not closed"),
        ("{.attention[}", "cannot be read"),
        ("{range .attention[*]}{.name}", "has no {end}"),
        ("{.name}{end}", "{end} without {range}"),
    ],
)
def test_a_mistake_is_named(template: str, why: str) -> None:
    with pytest.raises(TargetError) as caught:
        Template.parse(template)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)
