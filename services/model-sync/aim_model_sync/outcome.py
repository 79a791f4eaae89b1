"""What a sync found out, as it is published in its fact (MS-369): no credentials, no raw listings."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from aim_model_sync.candidates import FoundImages
from aim_model_sync.codes import AUTH, TRANSIENT, Code
from controller_runtime import ApiModel
from oci_registry import ImageReference, SecretProblem


class SelectorState(StrEnum):
    """How a selector ended (MS-110)."""

    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Refusal:
    """That an image cannot be resolved, as its model reports it (MS-385)."""

    image: ImageReference
    code: Code
    message: str


class SelectorOutcome(ApiModel):
    """Result of one selector.

    Attributes:
        matched: images it selected, those of earlier selectors included.
        found: images that no earlier selector selected.
        registry: canonical host it is about; empty when that is not known.
        contacted: whether a request was sent to the registry.
        reached: whether one of its endpoints answered although the selector failed (FW-397).
    """

    text: str
    code: Code | None = None
    message: str = ""
    registry: str = ""
    contacted: bool = False
    reached: bool = False
    matched: int = 0
    found: tuple[FoundImages, ...] = ()

    @property
    def state(self) -> SelectorState:
        """How it ended."""
        if self.code is None:
            return SelectorState.SUCCEEDED
        return SelectorState.PARTIAL if self.matched else SelectorState.FAILED


class SecretVersion(ApiModel):
    """Which version of a Secret was read; empty strings when there was none (FW-096)."""

    name: str
    uid: str = ""
    resource_version: str = ""


class SyncOutcome(ApiModel):
    """Result of one sync.

    Attributes:
        generation: of the source that it was based on.
        attempt: consecutive attempts up to this one, 1 for the first.
        available: different images selected (MS-289).
        retry_after: seconds after the end of the sync before which a registry does not want to be asked again.
    """

    generation: int
    attempt: int = 1
    selectors: tuple[SelectorOutcome, ...] = ()
    available: int = 0
    secrets: tuple[SecretVersion, ...] = ()
    secret_problems: tuple[SecretProblem, ...] = ()
    retry_after: float | None = None

    @property
    def is_transient(self) -> bool:
        """Whether a selector ended with an error that soon may be gone (MS-254)."""
        return any(one.code in TRANSIENT for one in self.selectors)

    @property
    def lacks_access(self) -> bool:
        """Whether a changed Secret could help (MS-247)."""
        return bool(self.secret_problems) or any(one.code in AUTH for one in self.selectors)

    @property
    def all_failed(self) -> bool:
        """Whether no selector yielded anything."""
        return all(one.state is SelectorState.FAILED for one in self.selectors)

    def with_refusals(self, refusals: Mapping[int, Refusal]) -> Self:
        """The outcome with the selectors failed whose image a model reports as not to be resolved (MS-385, MS-393).

        Args:
            refusals: by index of the selector.
        """
        selectors = tuple(
            one
            if one.code is not None or (refusal := refusals.get(index)) is None
            else one.model_copy(update={"code": refusal.code, "message": refusal.message, "matched": 0})
            for index, one in enumerate(self.selectors)
        )
        missing = len({refusal.image for refusal in refusals.values()})
        return self.model_copy(update={"selectors": selectors, "available": max(0, self.available - missing)})

    def images(self) -> Iterator[ImageReference]:
        """All candidates in candidate order."""
        return (image for one in self.selectors for found in one.found for image in found.images())


class SecretsOutcome(ApiModel):
    """Result of re-reading the pull secrets of a source (FW-096)."""

    secrets: tuple[SecretVersion, ...] = ()
