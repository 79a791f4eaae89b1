"""Image metadata of a model: where it comes from, when the registry is asked, what is reported (DI-057…DI-103)."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from aim_discovery import SERVICE_NAME
from aim_discovery.image_effects import IMAGE_INSPECTION, PULL_SECRETS, REGISTRY_REASONS, InspectionParams, inputs_key
from aim_discovery.models.expectation import DiscoveryFlags, excess, within_bounds
from aim_discovery.models.image_labels import MalformedMetadataError, limited, parse_labels
from aim_discovery.scopes import Model
from aim_domain import ImageMetadata
from aim_domain.component_names import ComponentName
from aim_domain.pull_secrets import SecretsParams
from controller_runtime import (
    Category,
    ClassifiedError,
    Component,
    ConditionStatus,
    Effect,
    Fact,
    JsonObject,
    State,
    View,
    find_condition,
    to_json,
)
from oci_registry import InvalidReferenceError, RegistryErrorCategory, parse_image

SECRET_INTERVAL: Final = timedelta(seconds=60)
"""How often the Secrets of a model are read while it is not inspected (FW-096)."""

FORMAT_INVALID: Final = "MetadataFormatInvalid"


def is_transient(reason: str) -> bool:
    """Whether trying again soon can help a failed extraction (DI-097); an empty reason is no failure."""
    return reason not in ("", REGISTRY_REASONS[RegistryErrorCategory.NOT_FOUND], FORMAT_INVALID)


@dataclass(frozen=True, slots=True)
class RetrySchedule:
    """Seconds between attempts to inspect an image (DI-096)."""

    initial: float
    longest: float

    def delay(self, reason: str, attempts: int, key: str) -> timedelta:
        """Wait after that many failures in a row; the jitter of up to 10 % is drawn from the key, to stay pure."""
        if not is_transient(reason):
            return timedelta(seconds=self.longest)
        plain = min(self.initial * 2.0 ** min(max(attempts - 1, 0), 32), self.longest)
        digest = hashlib.sha256(f"{key}/{attempts}".encode()).digest()
        return timedelta(seconds=plain * (1 + 0.1 * digest[0] / 255))


@dataclass(frozen=True, slots=True)
class Inspection:
    """What is known of the image.

    Attributes:
        effective: metadata for decisions; the spec's wins as a whole (DI-066).
        status: metadata for ``status.imageMetadata``.
        effects: what still has to be read.
        pending: the first answer is outstanding; until then nothing is made of the image (DI-095).
    """

    component: Component
    effective: ImageMetadata | None
    status: ImageMetadata | None
    effects: tuple[Effect, ...] = ()
    pending: bool = False


def inspect_image(
    model: Model,
    flags: DiscoveryFlags,
    namespace: str,
    view: View,
    schedule: RetrySchedule,
    *,
    secrets: tuple[str, ...] = (),
) -> Inspection:
    """The decision of section 4.2, first match wins.

    Args:
        namespace: where pull secrets and service account are (DI-070).
        secrets: names of pull secrets beside the model's own (RC-153).
    """
    given, known = model.spec.image_metadata, model.status.image_metadata
    if not flags.extract:
        effective = given or known
        message = "" if effective is not None else "Reading the image's metadata is switched off"
        return Inspection(_found_component(effective, message), effective, known)
    if given is not None:
        return Inspection(_found_component(given, "Metadata is given in the spec"), given, within_bounds(given))
    if known is not None and _is_current(model):
        # What was left out when the image answered is known from the condition only (CC-341).
        stored = find_condition(model.status.conditions, ComponentName.IMAGE_METADATA.condition)
        return Inspection(_found_component(known, stored.message if stored is not None else ""), known, known)
    names = tuple(dict.fromkeys((*(secret.name for secret in model.spec.image_pull_secrets), *secrets)))
    return _ask_registry(model, names, namespace, view, schedule)


def _is_current(model: Model) -> bool:
    """Whether the stored metadata belongs to the present spec (DI-067)."""
    condition = find_condition(model.status.conditions, ComponentName.IMAGE_METADATA.condition)
    if condition is None:
        return True
    if condition.status == ConditionStatus.FALSE:
        return False
    return condition.observed_generation in (None, 0, model.metadata.generation)


def _ask_registry(
    model: Model, names: tuple[str, ...], namespace: str, view: View, schedule: RetrySchedule
) -> Inspection:
    spec, known = model.spec, model.status.image_metadata
    try:
        image = parse_image(spec.image)
    except InvalidReferenceError as error:
        invalid = ClassifiedError(Category.INVALID_SPEC, "InvalidImageReference", f"spec.image: {error}")
        return _failed(invalid, known, ())
    secrets = _pull_secrets(model, names, namespace, view)
    if secrets.error is not None:
        return _failed(secrets.error, known, secrets.watch)
    if secrets.versions is None:
        return _waiting("Reading the pull secrets", known, secrets.watch)
    params = InspectionParams(
        image=spec.image,
        namespace=namespace,
        secrets=names,
        service_account=spec.service_account_name or "default",
    )
    seen: JsonObject = {"generation": model.metadata.generation, "versions": dict(secrets.versions)}
    key = inputs_key(model.uid, {**to_json(params), **seen})
    lookup = IMAGE_INSPECTION.look_up(view, SERVICE_NAME, key)
    if lookup.error is not None:
        return _failed(lookup.error, known, ())
    fact = lookup.value
    if fact is None:
        return _waiting(f"Reading the metadata of {image}", known, (IMAGE_INSPECTION.ask(key, params),))
    if fact.error is not None:
        due = fact.observed_at + schedule.delay(fact.error.reason, fact.attempts, key)
        return _failed(fact.error, known, (IMAGE_INSPECTION.ask(key, params, due), *secrets.watch))
    return _inspected(spec.image, fact, known)


def _inspected(image: str, fact: Fact, known: ImageMetadata | None) -> Inspection:
    answer = IMAGE_INSPECTION.result_of(fact)
    try:
        given, left_out = limited(parse_labels({} if answer is None else answer.labels))
        metadata = ImageMetadata.model_validate(given)
    except MalformedMetadataError as fault:
        error = ClassifiedError(Category.INVALID_SPEC, FORMAT_INVALID, f"metadata of {image} is malformed: {fault}")
        return _failed(error, known, ())
    message = (
        f"Left out of the metadata of {image}, which exceeds its bounds: {', '.join(left_out)}" if left_out else ""
    )
    return Inspection(_found_component(metadata, message), metadata, metadata)


def _found_component(metadata: ImageMetadata | None, message: str = "") -> Component:
    """Success; the reason follows from the metadata in force, wherever it comes from (DI-100, DI-101)."""
    named = metadata is not None and metadata.model is not None and metadata.model.canonical_name
    beyond = excess(metadata)
    if beyond and beyond not in message:
        message = f"{message}; {beyond}" if message else beyond
    reason = "ImageMetadataFound" if named else "ImageFound"
    return _component(State.READY, reason, message)


def _waiting(message: str, known: ImageMetadata | None, effects: tuple[Effect, ...]) -> Inspection:
    # Stored metadata is of another spec: it stays visible (DI-099), but no templates are made of it.
    return Inspection(_component(State.PROGRESSING, "ExtractingMetadata", message), None, known, effects, pending=True)


def _failed(error: ClassifiedError, known: ImageMetadata | None, effects: tuple[Effect, ...]) -> Inspection:
    component = Component(ComponentName.IMAGE_METADATA, errors=(error,), is_input=True)
    return Inspection(component, None, known, effects)


def _component(state: State, reason: str, message: str) -> Component:
    return Component(ComponentName.IMAGE_METADATA, state, reason, message)


# Pull secrets


@dataclass(frozen=True, slots=True)
class _Secrets:
    """Versions of the listed Secrets (``None`` while unknown), or why they cannot be used; and the next reading."""

    versions: Mapping[str, str | None] | None
    error: ClassifiedError | None = None
    watch: tuple[Effect, ...] = ()


def _pull_secrets(model: Model, names: tuple[str, ...], namespace: str, view: View) -> _Secrets:
    if not names:
        return _Secrets({})
    params = SecretsParams(namespace=namespace, secrets=names)
    key = inputs_key(model.uid, to_json(params))
    lookup = PULL_SECRETS.look_up(view, SERVICE_NAME, key)
    if lookup.error is not None:
        return _Secrets(None, lookup.error)
    fact = lookup.value
    if fact is None:
        return _Secrets(None, None, (PULL_SECRETS.ask(key, params),))
    watch = (PULL_SECRETS.ask(key, params, fact.observed_at + SECRET_INTERVAL),)
    if fact.error is not None:
        return _Secrets(None, fact.error, watch)
    found = PULL_SECRETS.result_of(fact)
    versions = {} if found is None else found.versions
    missing = next((name for name in names if versions.get(name) is None), None)
    if missing is not None:
        message = f"pull secret {namespace}/{missing} does not exist; create it or remove it from imagePullSecrets"
        return _Secrets(None, ClassifiedError(Category.MISSING_UPSTREAM, "SecretNotFound", message), watch)
    return _Secrets(versions, None, watch)
