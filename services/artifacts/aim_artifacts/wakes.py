"""Which artifacts a free volume concerns: a line that no single decision sees (AR-472)."""

from collections.abc import Iterable
from typing import Final

from aim_artifacts.admission import admissible_after
from aim_shared.api import PersistentVolumeClaim
from aim_shared.bus.entry import Change
from aim_shared.bus.part import Key
from aim_shared.bus.parts import ARTIFACT_CLAIMS
from aim_shared.bus.view import View
from aim_shared.reconcile.reconciler import Wake, WakeBy


def _waiting_for_claim(change: Change[PersistentVolumeClaim], view: View) -> Iterable[Key]:
    return admissible_after(view, change.key.namespace) if change.new is None else []


ARTIFACT_WAKES: Final[tuple[Wake, ...]] = (WakeBy(ARTIFACT_CLAIMS, _waiting_for_claim),)
