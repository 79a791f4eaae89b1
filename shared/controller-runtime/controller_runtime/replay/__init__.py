"""Recorded decisions, taken again: would today's code decide alike?

async for one in Replayer(history, services).decisions():
    print(one.verdict, one.differences, one.missing)
"""

from controller_runtime.replay.replayer import Replayed, Replayer, ServiceCode, Verdict

__all__ = ["Replayed", "Replayer", "ServiceCode", "Verdict"]
