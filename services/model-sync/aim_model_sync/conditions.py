"""Conditions of a model source, and their words."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from aim_model_sync.codes import AUTH, CONFIGURATION, LACKS_CREDENTIALS, OUTAGE
from aim_model_sync.outcome import SelectorOutcome, SelectorState, SyncOutcome
from controller_runtime import (
    RETRIED_CATEGORIES,
    ClassifiedError,
    Condition,
    ConditionStatus,
    Desired,
    Observability,
    condition,
    find_condition,
)
from oci_registry import SecretReason

MAX_SELECTORS: Final = 10
MAX_MESSAGE: Final = 4000
"""Characters; below the 4096 of MS-280 with room for what the caller adds."""
_MAX_CAUSE: Final = 256
_MAX_NAMES: Final = 5


def selector_details(outcome: SyncOutcome) -> str:
    """The selectors that did not succeed, by index: text as written, code and cause."""
    failing = [(index, one) for index, one in enumerate(outcome.selectors) if one.code is not None]
    reported = [selector_detail(index, one) for index, one in failing[:MAX_SELECTORS]]
    more = len(failing) - len(reported)
    rest = ", ".join(f"[{index}] {one.text.strip()}" for index, one in failing[MAX_SELECTORS:])
    return shortened("; ".join([*reported, *([f"and {more} more: {rest}"] if more else [])]))


def selector_detail(index: int, one: SelectorOutcome) -> str:
    """A selector that did not succeed: index, text as written, code and cause (MS-279)."""
    assert one.code is not None
    return f"[{index}] {one.text.strip()}: {one.code.value}: {shortened(one.message, _MAX_CAUSE)}"


def shortened(text: str, limit: int = MAX_MESSAGE) -> str:
    """The text, cut at the limit with a mark."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def some(names: Iterable[str], limit: int = _MAX_NAMES) -> str:
    """The first names and how many more there are (MS-281)."""
    listed: Sequence[str] = list(names)
    more = len(listed) - limit
    shown = ", ".join(listed[:limit])
    return f"{shown} and {more} more" if more > 0 else shown


def count_of(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class SourceCondition(StrEnum):
    """Condition types of the kind, in the order in which they are written."""

    READY = "Ready"
    DEGRADED = "Degraded"
    SYNCING = "Syncing"
    REGISTRY_REACHABLE = "RegistryReachable"
    FILTERS_READY = "FiltersReady"
    EXISTING_MODELS_READY = "ExistingModelsReady"
    MAX_MODELS_LIMIT_REACHED = "MaxModelsLimitReached"
    CONFIG_VALID = "ConfigValid"
    AUTH_VALID = "AuthValid"
    DEPENDENCIES_REACHABLE = "DependenciesReachable"


class Reason(StrEnum):
    """Reasons of these conditions."""

    ALL_COMPONENTS_READY = "AllComponentsReady"
    PROGRESSING = "Progressing"
    INVALID_SPEC = "InvalidSpec"
    INFRASTRUCTURE_ERROR = "InfrastructureError"
    ALL_FILTERS_FAILED = "AllFiltersFailed"
    SOME_FILTERS_FAILED = "SomeFiltersFailed"
    ALL_FILTERS_SUCCEEDED = "AllFiltersSucceeded"
    MODEL_CREATION_FAILED = "ModelCreationFailed"
    AS_EXPECTED = "AsExpected"
    LIMIT_REACHED = "LimitReached"
    WITHIN_LIMIT = "WithinLimit"
    AWAITING_FIRST_SYNC = "AwaitingFirstSync"
    SYNC_IN_PROGRESS = "SyncInProgress"
    SYNC_COMPLETED = "SyncCompleted"
    SYNC_FAILED = "SyncFailed"
    REACHABLE = "Reachable"
    REGISTRY_UNREACHABLE = "RegistryUnreachable"
    NOT_CHECKED = "NotChecked"
    LISTED = "Listed"
    REFERENCE_NOT_FOUND = "ReferenceNotFound"
    AUTH_ERROR = "AuthError"
    CONFIGURATION_VALID = "ConfigurationValid"
    AUTHENTICATION_VALID = "AuthenticationValid"


@dataclass(frozen=True, slots=True)
class Fault:
    """A problem that a lasting condition tells of while it stands."""

    reason: Reason
    message: str


_ERROR: Final = Observability.ERROR
_SILENT: Final = Observability.SILENT


def ready(problem: Fault | None, selectors: int) -> tuple[Desired, Desired]:
    """``Ready`` and ``Degraded``, which always say the same (MS-322, MS-323)."""
    if problem is None:
        text = _share(selectors, selectors, "succeeded")
        return (
            condition(SourceCondition.READY, True, Reason.ALL_COMPONENTS_READY, text),
            condition(SourceCondition.DEGRADED, False, Reason.AS_EXPECTED, text),
        )
    return (
        condition(SourceCondition.READY, False, problem.reason, problem.message, _ERROR),
        condition(SourceCondition.DEGRADED, True, problem.reason, problem.message, _ERROR),
    )


def syncing(now: bool, reason: Reason) -> Desired:
    """Whether a sync runs, or how the last one ended (MS-326, MS-347)."""
    return condition(SourceCondition.SYNCING, now, reason, observe=_SILENT)


def filters_ready(outcome: SyncOutcome) -> Desired:
    """How the selectors fared (MS-330…MS-332); also when they come from ``images`` (MS-341)."""
    total = len(outcome.selectors)
    if all(one.state is SelectorState.SUCCEEDED for one in outcome.selectors):
        text = _share(total, total, "succeeded")
        return condition(SourceCondition.FILTERS_READY, True, Reason.ALL_FILTERS_SUCCEEDED, text)
    fault = filter_fault(outcome)
    assert fault is not None
    return condition(SourceCondition.FILTERS_READY, False, fault.reason, fault.message, _ERROR)


def is_reported(outcome: SyncOutcome, stored: Sequence[Condition]) -> bool:
    """Whether the stored conditions say of the selectors what the outcome does."""
    before, now = find_condition(tuple(stored), SourceCondition.FILTERS_READY), filters_ready(outcome)
    return before is not None and (before.reason, before.message) == (now.reason, now.message)


def filter_fault(outcome: SyncOutcome) -> Fault | None:
    """The selectors' part of what is wrong (MS-307, MS-308)."""
    bad = sum(one.code is not None for one in outcome.selectors)
    if not bad:
        return None
    reason = Reason.ALL_FILTERS_FAILED if outcome.all_failed else Reason.SOME_FILTERS_FAILED
    return Fault(reason, f"{_share(bad, len(outcome.selectors), 'failed')}: {selector_details(outcome)}")


def _share(number: int, total: int, what: str) -> str:
    return f"{number} of {count_of(total, 'selector')} {what}"


def registry_reachable(outcome: SyncOutcome) -> Desired:
    """Whether every registry that was asked gave an answer, even a refusal (MS-327…MS-329, FW-397)."""
    type_ = SourceCondition.REGISTRY_REACHABLE
    asked = {one.registry for one in outcome.selectors if one.contacted}
    down = {one.registry for one in outcome.selectors if one.contacted and one.code in OUTAGE and not one.reached}
    if down:
        text = f"no valid response from {some(sorted(down))}; check network and registry"
        return condition(type_, False, Reason.REGISTRY_UNREACHABLE, text, _ERROR)
    if asked:
        return condition(type_, True, Reason.REACHABLE, f"{some(sorted(asked))} answered", _SILENT)
    text = "no registry was contacted: the models of pinned images contact theirs"
    return Desired(type_, ConditionStatus.UNKNOWN, Reason.NOT_CHECKED, text, _SILENT)


def existing_models(number: int, error: ClassifiedError | None = None) -> Desired:
    """Whether the source's models are known (MS-333, MS-334)."""
    type_ = SourceCondition.EXISTING_MODELS_READY
    if error is not None:
        return condition(type_, False, error.reason, error.message, _ERROR)
    return condition(type_, True, Reason.LISTED, f"the source has {count_of(number, 'model')}")


def limit_reached(models: int, withheld: int) -> Desired:
    """Whether ``maxModels`` keeps images from becoming models (MS-324, MS-325)."""
    type_ = SourceCondition.MAX_MODELS_LIMIT_REACHED
    if withheld:
        text = (
            f"{count_of(models, 'model')} created, {count_of(withheld, 'image')} not created because of maxModels; "
            "raise it, or select fewer images"
        )
        return condition(type_, True, Reason.LIMIT_REACHED, text)
    return condition(type_, False, Reason.WITHIN_LIMIT, f"{count_of(models, 'model')}, none withheld")


def config_fault(outcome: SyncOutcome, namespace: str) -> Fault | None:
    """Selectors that have to be corrected, or a Secret that has to be made (MS-335, MS-336)."""
    wrong = [index for index, one in enumerate(outcome.selectors) if one.code in CONFIGURATION]
    if wrong:
        text = f"correct selector {some(map(str, wrong))}: {selector_details(outcome)}"
        return Fault(Reason.INVALID_SPEC, text)
    missing = [one.name for one in outcome.secret_problems if one.reason is SecretReason.NOT_FOUND]
    if missing and any(one.code in LACKS_CREDENTIALS for one in outcome.selectors):
        text = f"Secret {some(missing)} does not exist in namespace {namespace}; create it there"
        return Fault(Reason.REFERENCE_NOT_FOUND, text)
    return None


def auth_fault(outcome: SyncOutcome) -> Fault | None:
    """Registries that refused access or need a credential (MS-337)."""
    refused = sorted({one.registry for one in outcome.selectors if one.code in AUTH})
    if not refused:
        return None
    return Fault(Reason.AUTH_ERROR, f"no access to {some(refused)}: {selector_details(outcome)}")


def dependencies_fault(*errors: ClassifiedError | None) -> Fault | None:
    """Failures of the Kubernetes API (MS-338)."""
    for error in errors:
        if error is not None and error.category in RETRIED_CATEGORIES:
            return Fault(Reason.INFRASTRUCTURE_ERROR, error.message)
    return None


_RECOVERED: Final = {
    SourceCondition.CONFIG_VALID: (Reason.CONFIGURATION_VALID, "the configuration is valid"),
    SourceCondition.AUTH_VALID: (Reason.AUTHENTICATION_VALID, "all registries granted access"),
    SourceCondition.DEPENDENCIES_REACHABLE: (Reason.REACHABLE, "the Kubernetes API is reachable"),
}


def lasting(type_: SourceCondition, fault: Fault | None, stored: Sequence[Condition]) -> tuple[Desired, ...]:
    """A condition that appears with its first problem and then stays (MS-339, MS-340)."""
    if fault is not None:
        return (condition(type_, False, fault.reason, fault.message, _ERROR),)
    if find_condition(tuple(stored), type_) is None:
        return ()
    reason, text = _RECOVERED[type_]
    return (condition(type_, True, reason, text),)
