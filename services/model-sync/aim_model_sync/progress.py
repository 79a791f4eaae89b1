"""Where a source stands: never synced, syncing, to be concluded, waiting; and when it is due (MS-243…MS-256)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from aim_domain import AIMClusterModelSource
from aim_model_sync.conditions import Reason, SourceCondition
from aim_model_sync.outcome import SecretsOutcome, SyncOutcome
from aim_model_sync.schedule import SECRET_CHECK_INTERVAL, SECRET_DEBOUNCE, LastSync, next_sync
from controller_runtime import ClassifiedError, Condition, ConditionStatus, Fact, find_condition


@dataclass(frozen=True, slots=True)
class Progress:
    """The newest facts about a source, read against its stored status; make it with `of`.

    The condition ``Syncing`` tells whether the newest sync has been concluded: it turns true with the start and false
    with the models and the status that follow from the result. It outlives a restart, and a model that a user deletes
    afterwards is not made again before the next sync (MS-238).

    Attributes:
        outcome: result of the newest sync; ``None`` also when it could not be carried out.
    """

    source: AIMClusterModelSource
    fact: Fact | None
    secrets_fact: Fact | None
    outcome: SyncOutcome | None

    @classmethod
    def of(cls, source: AIMClusterModelSource, fact: Fact | None, secrets_fact: Fact | None) -> Self:
        """Decode the result, which may be large, once."""
        return cls(source, fact, secrets_fact, None if fact is None else fact.read(SyncOutcome))

    @property
    def failure(self) -> ClassifiedError | None:
        """Why the newest sync could not be carried out."""
        return None if self.fact is None else self.fact.error

    @property
    def is_answered(self) -> bool:
        """Whether there is a result that has not been concluded yet."""
        syncing = self._syncing
        if self.fact is None or not self._is_current:
            return False
        if self.outcome is not None and self.source.status.observed_generation != self.source.metadata.generation:
            # No sync of this spec was concluded, also where the start was not stored: a status write may be refused.
            return True
        if syncing is None or syncing.last_transition_time is None:
            return True
        # The condition's time has whole seconds.
        ended, since = self.fact.observed_at.replace(microsecond=0), syncing.last_transition_time
        return ended >= since if syncing.status is ConditionStatus.TRUE else ended > since

    @property
    def is_unfinished(self) -> bool:
        """Whether the newest result was concluded without success, so that models may still have to be made."""
        return self._is_current and self._syncing is not None and self._syncing.reason == Reason.SYNC_FAILED

    @property
    def last(self) -> LastSync | None:
        """The sync that ended last, from its fact, or from the status when the fact was lost (MS-249)."""
        fact, outcome = self.fact, self.outcome
        if fact is not None and outcome is not None:
            attempts = outcome.attempt if outcome.is_transient else 0
            return LastSync(fact.observed_at, outcome.generation, attempts, outcome.retry_after)
        generation = self.source.status.observed_generation
        if fact is not None:
            current = self.source.metadata.generation
            return LastSync(fact.observed_at, current if generation is None else generation, fact.attempts)
        syncing = self._syncing
        if syncing is None or syncing.status is ConditionStatus.TRUE or syncing.last_transition_time is None:
            return None
        if syncing.reason == Reason.AWAITING_FIRST_SYNC:
            return None
        return None if generation is None else LastSync(syncing.last_transition_time, generation)

    def due(self, interval: float) -> datetime | None:
        """When the next sync is due; ``None`` = it has been since the spec changed (MS-243)."""
        last = self.last
        if last is None or (last.generation != self.source.metadata.generation and not self._is_first_failure):
            return None
        regular = next_sync(last, interval, self.source.uid)
        changed = self._secrets_changed_at
        return regular if changed is None else min(regular, changed + timedelta(seconds=SECRET_DEBOUNCE))

    @property
    def next_secret_check(self) -> datetime | None:
        """When to look at the pull secrets again; ``None`` when they are not what is wrong (MS-247)."""
        outcome = self.outcome
        if self.fact is None or outcome is None or not outcome.lacks_access or not outcome.secrets:
            return None
        seen = [self.fact.observed_at, *([self.secrets_fact.observed_at] if self.secrets_fact else [])]
        return max(seen) + timedelta(seconds=SECRET_CHECK_INTERVAL)

    @property
    def attempt(self) -> int:
        """Number of the sync that starts next: counts up while a generation leaves something to retry (MS-254)."""
        last = self.last
        same = last is not None and last.generation == self.source.metadata.generation
        return last.attempts + 1 if last is not None and same else 1

    @property
    def _syncing(self) -> Condition | None:
        return find_condition(self.source.status.conditions, SourceCondition.SYNCING)

    @property
    def _is_current(self) -> bool:
        if self.fact is None:
            return False
        outcome = self.outcome
        return outcome is None or outcome.generation == self.source.metadata.generation

    @property
    def _is_first_failure(self) -> bool:
        """A sync of a new generation that could not be carried out has no generation of its own."""
        return self.failure is not None and self.is_answered

    @property
    def _secrets_changed_at(self) -> datetime | None:
        outcome, fact = self.outcome, self.secrets_fact
        if self.fact is None or outcome is None or fact is None or fact.observed_at <= self.fact.observed_at:
            return None
        seen = fact.read(SecretsOutcome)
        return fact.observed_at if seen is not None and seen.secrets != outcome.secrets else None
