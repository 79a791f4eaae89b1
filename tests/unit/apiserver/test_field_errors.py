"""Field errors read as the real server words them."""

import pytest

from embedded_apiserver.objects.errors import FieldError, FieldErrorKind, causes, render, rules_unchecked

K = FieldErrorKind


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FieldError("spec.x", K.REQUIRED), "spec.x: Required value"),
        (FieldError("spec.model", K.INVALID, "immutable", "object"), 'spec.model: Invalid value: "object": immutable'),
        (
            FieldError("spec.mode", K.NOT_SUPPORTED, 'supported values: "a", "b"', "x"),
            'spec.mode: Unsupported value: "x": supported values: "a", "b"',
        ),
        (
            FieldError("metadata.name", K.TOO_LONG, "may not be more than 63 bytes", "n" * 70),
            "metadata.name: Too long: may not be more than 63 bytes",
        ),
        (FieldError("spec.l[1]", K.DUPLICATE, "", {"type": "Ready"}), 'spec.l[1]: Duplicate value: {"type":"Ready"}'),
        (FieldError("spec.n", K.INVALID, "must be positive", -1), "spec.n: Invalid value: -1: must be positive"),
        (FieldError("spec.n", K.FORBIDDEN, "not now", 3), "spec.n: Forbidden: not now"),
        (
            FieldError("spec.l", K.TOO_MANY, "must have at most 2 items", 3),
            "spec.l: Too many: 3: must have at most 2 items",
        ),
    ],
)
def test_wording(error: FieldError, text: str) -> None:
    assert str(error) == text


def test_several_errors_are_listed_once_each() -> None:
    first, second = FieldError("a", K.REQUIRED), FieldError("b", K.REQUIRED)
    assert render([first]) == "a: Required value"
    assert render([first, second, first]) == "[a: Required value, b: Required value]"


def test_a_cause_has_reason_message_and_field() -> None:
    assert causes([FieldError("spec.x", K.REQUIRED)]) == [
        {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.x"}
    ]


@pytest.mark.parametrize("kind", [K.REQUIRED, K.TYPE_INVALID, K.NOT_SUPPORTED, K.TOO_LONG, K.TOO_MANY])
def test_some_errors_keep_rules_from_running(kind: FieldErrorKind) -> None:
    notice = rules_unchecked([FieldError("spec.x", kind)])
    assert notice is not None
    assert str(notice).startswith("<nil>: Invalid value: null: some validation rules were not checked")


@pytest.mark.parametrize("kind", [K.INVALID, K.DUPLICATE, K.FORBIDDEN])
def test_other_errors_let_rules_run(kind: FieldErrorKind) -> None:
    assert rules_unchecked([FieldError("spec.x", kind)]) is None
