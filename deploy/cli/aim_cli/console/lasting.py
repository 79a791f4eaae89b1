"""What has to go on as long as a console does."""

import asyncio
from typing import Any, Never

from aim_cli.console.mirror import Mirror
from aim_cli.errors import UnreachableError


async def ended(serving: "asyncio.Future[Any]", present: Mirror) -> Never:
    """Wait until the pages are served no more, or nothing more is learnt from the broker (FW-677).

    Raises:
        UnreachableError: one of them ended; what made it end is raised where that is known.
    """
    lasting = {serving: "the server of the pages", present.following: "what follows the message broker"}
    done, _ = await asyncio.wait(lasting, return_when=asyncio.FIRST_COMPLETED)
    first = next(one for one in lasting if one in done)
    if not first.cancelled():
        first.result()
    raise UnreachableError(f"{lasting[first]} has ended; restart the console")
