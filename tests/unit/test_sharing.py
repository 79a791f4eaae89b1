"""Texts of which there is one copy, and none once nobody holds it."""

import sys

from aim_shared.sharing import shared


def test_what_nobody_holds_is_not_kept() -> None:
    before = sys.getallocatedblocks()
    for number in range(20_000):
        shared(f"12345678-{number}")
    assert sys.getallocatedblocks() - before < 2_000
