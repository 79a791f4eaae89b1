"""Field errors worded as the real API server words them, and their form in a `metav1.Status`."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from controller_runtime import JsonObject, dumps


class FieldErrorKind(Enum):
    """Why a field is wrong; the value is the cause's `reason` in a Status."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    TYPE_INVALID = "FieldValueTypeInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    DUPLICATE = "FieldValueDuplicate"
    FORBIDDEN = "FieldValueForbidden"
    NOT_FOUND = "FieldValueNotFound"


_LABELS: Final = {
    FieldErrorKind.REQUIRED: "Required value",
    FieldErrorKind.INVALID: "Invalid value",
    FieldErrorKind.TYPE_INVALID: "Invalid value",
    FieldErrorKind.NOT_SUPPORTED: "Unsupported value",
    FieldErrorKind.TOO_LONG: "Too long",
    FieldErrorKind.TOO_MANY: "Too many",
    FieldErrorKind.DUPLICATE: "Duplicate value",
    FieldErrorKind.FORBIDDEN: "Forbidden",
    FieldErrorKind.NOT_FOUND: "Not found",
}
_WITHOUT_VALUE: Final = frozenset({FieldErrorKind.REQUIRED, FieldErrorKind.TOO_LONG, FieldErrorKind.FORBIDDEN})

# While one of these stands, CEL rules are not evaluated: they could meet values of another type.
_BLOCKING: Final = frozenset(
    {
        FieldErrorKind.REQUIRED,
        FieldErrorKind.TYPE_INVALID,
        FieldErrorKind.NOT_SUPPORTED,
        FieldErrorKind.TOO_LONG,
        FieldErrorKind.TOO_MANY,
    }
)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One wrong field: `path` like `spec.items[0].name`, what is wrong, and the offending value."""

    path: str
    kind: FieldErrorKind
    detail: str = ""
    value: object = None

    @property
    def body(self) -> str:
        """The text without the path, which is the `message` of a Status cause."""
        text = _LABELS[self.kind]
        if self.kind not in _WITHOUT_VALUE:
            text = f"{text}: {dumps(self.value).decode()}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        """The text as `kubectl` shows it: `spec.x: Required value`."""
        return f"{self.path or '<nil>'}: {self.body}"

    def cause(self) -> JsonObject:
        """The entry of `Status.details.causes`."""
        return {"reason": self.kind.value, "message": self.body, "field": self.path or "<nil>"}


def render(errors: Sequence[FieldError]) -> str:
    """All errors as one text: a single one plain, several as `[a, b]`, repeated texts once."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def causes(errors: Sequence[FieldError]) -> list[JsonObject]:
    """`Status.details.causes` of these errors."""
    return [error.cause() for error in errors]


def rules_unchecked(errors: Sequence[FieldError]) -> FieldError | None:
    """The additional error that tells that CEL rules were skipped, or None when they may run."""
    if not any(error.kind in _BLOCKING for error in errors):
        return None
    detail = (
        "some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation"
    )
    return FieldError("", FieldErrorKind.INVALID, detail)
