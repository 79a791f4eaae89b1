"""Processor time and memory of processes, from /proc."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aim_local.stack import Stack

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_UTIME: Final = 11
"""Index of utime in /proc/<pid>/stat behind the name, which may hold blanks; stime follows."""
_BUSY: Final = (0, 1, 2, 5, 6)
"""Fields of the first line of /proc/stat that are work: user, nice, system, irq, softirq."""
MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class CpuReading:
    """Processor seconds used so far by each process and by the whole machine, and when."""

    at: float
    seconds: Mapping[str, float]
    machine: float

    def since(self, before: "CpuReading") -> dict[str, float]:
        """Processor seconds used by each process since an earlier reading."""
        return {name: used - before.seconds.get(name, 0.0) for name, used in self.seconds.items()}

    def shares_since(self, before: "CpuReading") -> dict[str, float]:
        """Percent of one core."""
        span = self.at - before.at
        return {name: 100 * used / span for name, used in self.since(before).items()}

    def strangers_since(self, before: "CpuReading") -> float:
        """Percent of the whole machine that processes used which are not measured here."""
        own = sum(self.since(before).values())
        capacity = (self.at - before.at) * (os.cpu_count() or 1)
        return max(0.0, 100 * (self.machine - before.machine - own) / capacity)


def read_cpu(stack: Stack) -> CpuReading:
    """Read all processes of a stack, and this one as ``bench``."""
    pids = {one.name: one.pid for one in stack.processes if one.running}
    seconds = {name: processor_seconds(pid) for name, pid in {**pids, "bench": os.getpid()}.items()}
    return CpuReading(time.monotonic(), seconds, _machine_seconds())


def resident_mib(stack: Stack, name: str) -> float:
    """Memory that a process holds now."""
    return (stack[name].resident_bytes or 0) / MIB


def resident_of(pid: int) -> float:
    """MiB that a process holds now."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def open_files(stack: Stack, name: str) -> int:
    """File descriptors that a process holds now."""
    return len(list(Path(f"/proc/{stack[name].pid}/fd").iterdir()))


def processor_seconds(pid: int) -> float:
    """Processor time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    return (int(fields[_UTIME]) + int(fields[_UTIME + 1])) / _TICKS


def _machine_seconds() -> float:
    fields = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:]
    return sum(int(fields[number]) for number in _BUSY) / _TICKS
