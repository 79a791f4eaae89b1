"""What is known of the rights of those who were here within a minute (FW-678)."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aim_cli.cluster.refs import JsonObject
from aim_cli.console.access import REMEMBERED_SECONDS, Access, Review
from aim_cli.console.identity import User, access_review

_MOST: Final = 256


@dataclass(slots=True)
class Viewers:
    """Rights by user.

    Attributes:
        review: creates a SubjectAccessReview and returns the answer.
    """

    review: Review
    clock: Callable[[], float] = time.monotonic
    _known: OrderedDict[User, tuple[Access, float]] = field(default_factory=OrderedDict)

    def access(self, user: User) -> Access:
        """What a user may see."""
        now = self.clock()
        found = self._known.pop(user, None)
        access = Access(self._asked_about(user), self.clock) if found is None else found[0]
        self._known[user] = access, now
        # The order is that of the last visits, and no answer counts for longer than this.
        while len(self._known) > _MOST or now - next(iter(self._known.values()))[1] > REMEMBERED_SECONDS:
            self._known.popitem(last=False)
        return access

    def _asked_about(self, user: User) -> Review:
        async def review(question: JsonObject) -> JsonObject:
            return await self.review(access_review(user, question["spec"]["resourceAttributes"]))

        return review

    def __len__(self) -> int:
        return len(self._known)
