"""Recorded decisions, taken again: would today's code decide alike?

async for one in Replayer(history, services).decisions():
    print(one.verdict, one.differences, one.missing)

Who only asks what a decision read need not import what decides.
"""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
