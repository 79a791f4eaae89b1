"""Which profiles a selector means, and which of them is the best (PR-040 to PR-047)."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key, lru_cache
from typing import Final, TypeAlias

from semver import Version

from aim_domain.api.enums import (
    AcceleratorType,
    AcceleratorVendor,
    AutoSelection,
    Metric,
    MinimumType,
    ModelScopeChoice,
    Precision,
    ProfileOrigin,
    ProfileRole,
    ProfileType,
    ResolutionScope,
)
from aim_domain.api.profile import AIMClusterProfile, AIMProfile
from aim_domain.api.profile_shapes import UNPARTITIONED, ProfileModelRef, ProfileSelector
from aim_domain.gpu.devices import canonical_model, gpu_rank

AnyProfile: TypeAlias = AIMProfile | AIMClusterProfile

PARTITIONED: Final = "partitioned"
_TYPES: Final = (ProfileType.OPTIMIZED, ProfileType.GENERAL, ProfileType.PREVIEW, ProfileType.UNOPTIMIZED)
_METRICS: Final = (Metric.LATENCY, Metric.THROUGHPUT)
_PRECISIONS: Final = (
    *(Precision.FP4, Precision.INT4, Precision.FP8, Precision.INT8, Precision.FP16, Precision.BF16),
    Precision.FP32,
)
_LONGEST_TAG: Final = 128
"""Characters of a tag at most, as registries have it; a field of an object has more, and others wait for the sort."""
_NUMBERS: Final = re.compile(r"[0-9]{1,18}")


def version_of_image(image: str) -> str:
    """The tag of an image; empty for a digest, or without one (PR-006)."""
    name = image.partition("@")[0].rpartition("/")[2]
    return name.partition(":")[2]


def version_of(profile: AnyProfile) -> str:
    """The version of a profile: the tag of its image."""
    return profile.status.version or version_of_image(profile.spec.image)


def role_of(profile: AnyProfile) -> ProfileRole:
    """Whether it has weights."""
    return ProfileRole.DEPLOYABLE if profile.spec.model_sources else ProfileRole.BASE


def accelerator_of(profile: AnyProfile) -> AcceleratorType | None:
    """What the engine runs on, as far as the profile says (PR-005)."""
    spec = profile.spec
    if spec.accelerator_type is not None:
        return spec.accelerator_type
    return AcceleratorType.GPU if spec.accelerator_model else None


def profile_matches(selector: ProfileSelector, profile: AnyProfile) -> bool:
    """Whether everything that the selector says is so (PR-041); the least type is another matter."""
    spec = profile.spec
    pairs = (
        (selector.aim_id, spec.aim_id),
        (selector.model_id, spec.model_id),
        (selector.profile_id, spec.profile_id),
        (selector.engine, spec.engine),
        (selector.metric, spec.metric),
        (selector.precision, spec.precision),
        (selector.type, spec.type or ProfileType.UNOPTIMIZED),
        (selector.accelerator_vendor, spec.accelerator_vendor or AcceleratorVendor.AMD),
        (selector.accelerator_type, accelerator_of(profile)),
        (selector.accelerator_count, spec.accelerator_count),
        (selector.origin, profile.status.origin or ProfileOrigin.USER_AUTHORED),
    )
    return (
        all(wanted is None or wanted == found for wanted, found in pairs)
        and role_of(profile) is (selector.role or ProfileRole.DEPLOYABLE)
        and _same_accelerator(selector.accelerator_model, spec.accelerator_model)
        and takes_partition(selector.accelerator_partitioning_mode or "", spec.accelerator_partitioning_mode)
        and _same_args(selector, profile)
        and (selector.model_ref is None or belongs_to(profile, selector.model_ref))
    )


def _same_accelerator(wanted: str | None, found: str | None) -> bool:
    """In whatever spelling, as of templates (SV-097)."""
    return wanted is None or (found is not None and canonical_model(wanted) == canonical_model(found))


def _same_args(selector: ProfileSelector, profile: AnyProfile) -> bool:
    wanted, found = selector.engine_args or {}, profile.spec.engine_args or {}
    return all(name in found and found[name] == value for name, value in wanted.items())


def belongs_to(profile: AnyProfile, model: ProfileModelRef) -> bool:
    """Whether the profile is of the model, by what discovery found out, not by labels, which users write (PR-007)."""
    source = profile.status.source_model
    if source is None or source.name != model.name:
        return False
    return model.scope is ModelScopeChoice.AUTO or source.scope == ResolutionScope(model.scope.value)


def takes_partition(wanted: str, mode: str) -> bool:
    """Whether a partitioning is meant (PR-042).

    >>> takes_partition("CPX", "cpx-nps4"), takes_partition("partitioned", "unpartitioned")
    (True, False)
    """
    asked, has = wanted.lower(), mode.lower() or UNPARTITIONED
    if asked in ("", has):
        return True
    if asked == PARTITIONED:
        return has != UNPARTITIONED
    return "-" not in asked and has.startswith(f"{asked}-")


# The least type


@dataclass(frozen=True, slots=True)
class Floor:
    """How far profiles have to be tuned at least.

    Attributes:
        least: the type; `ANY` for none.
        written: whether a user says so; otherwise profiles that allow it may fill in (PR-044).
    """

    least: MinimumType
    written: bool

    @classmethod
    def of(cls, selector: ProfileSelector | None, default: MinimumType) -> "Floor":
        """That of a selector."""
        least = selector.minimum_type if selector is not None else None
        return cls(least or default, least is not None)

    def admits(self, profile: AnyProfile) -> bool:
        """Whether the profile is tuned that far."""
        if self.least is MinimumType.ANY:
            return True
        return _place(_TYPES, profile.spec.type or ProfileType.UNOPTIMIZED) <= _place(_TYPES, self.least.value)


def _place(order: Sequence[str], value: str | None) -> int:
    return order.index(value) if value is not None and value in order else len(order)


# The best


@dataclass(frozen=True, slots=True)
class ProfileChoice:
    """What a selection came to.

    Attributes:
        chosen: the best; ``None`` when there is none.
        tied: others that are as good but for their name.
        below: those that match and are below the least type.
        floor: the least type.
    """

    chosen: AnyProfile | None = None
    tied: tuple[AnyProfile, ...] = ()
    below: tuple[AnyProfile, ...] = ()
    floor: MinimumType = MinimumType.OPTIMIZED


def choose(
    local: Iterable[AnyProfile], in_cluster: Iterable[AnyProfile], selector: ProfileSelector, floor: Floor
) -> ProfileChoice:
    """The best of the namespace, or of the cluster where the namespace has none (PR-043 to PR-046)."""
    scopes = tuple(tuple(one for one in scope if profile_matches(selector, one)) for scope in (local, in_cluster))
    admitted = tuple(tuple(one for one in scope if floor.admits(one)) for scope in scopes)
    if not floor.written and not any(admitted):
        allowed = AutoSelection.ANY
        admitted = tuple(tuple(one for one in scope if one.spec.auto_selection_policy is allowed) for scope in scopes)
    candidates = next((scope for scope in admitted if scope), ())
    if not candidates:
        return ProfileChoice(below=(*scopes[0], *scopes[1]), floor=floor.least)
    ranked = sorted(candidates, key=lambda one: (_health(one), _tiers(one), one.name))
    best = ranked[0]
    tied = tuple(one for one in ranked[1:] if (_health(one), _tiers(one)) == (_health(best), _tiers(best)))
    return ProfileChoice(best, tied, floor=floor.least)


def _health(profile: AnyProfile) -> int:
    """What can be used comes before what is better (PR-045); a profile that nothing was said of yet is Pending."""
    return -profile.status.status.priority


def _tiers(profile: AnyProfile) -> tuple[object, ...]:
    """The order of PR-046, without the name."""
    spec = profile.spec
    return (
        not spec.primary,
        _place(_TYPES, spec.type or ProfileType.UNOPTIMIZED),
        gpu_rank(canonical_model(spec.accelerator_model or "")),
        _place(_METRICS, spec.metric),
        _place(_PRECISIONS, spec.precision),
        (not spec.accelerator_count, spec.accelerator_count or 0),
        accelerator_of(profile) is AcceleratorType.CPU,
        newest_first(version_of(profile)),
    )


@cmp_to_key
def newest_first(one: str, other: str) -> int:
    """Sort key: the higher version comes first, texts without a number last (PR-046)."""
    return compare_versions(other, one)


def compare_versions(one: str, other: str) -> int:
    """Negative when ``one`` is the lower version: semantic versions, above others by the numbers in them.

    >>> compare_versions("0.9.0", "0.10"), compare_versions("v1.0", "1.0.0"), compare_versions("2024-10", "2024-9")
    (-1, 0, 1)
    """
    one, other = one[:_LONGEST_TAG], other[:_LONGEST_TAG]
    left, right = _semantic(one), _semantic(other)
    if left is not None and right is not None:
        return left.compare(right)
    if left is not None or right is not None:
        return 1 if left is not None else -1
    numbers = [[int(digits) for digits in _NUMBERS.findall(text)] for text in (one, other)]
    return (numbers[0] > numbers[1]) - (numbers[0] < numbers[1])


@lru_cache(maxsize=1024)
def _semantic(text: str) -> Version | None:
    """Kept, as each comparison of a sort asks again."""
    try:
        return Version.parse(text.removeprefix("v"), optional_minor_and_patch=True)
    except ValueError:
        return None
