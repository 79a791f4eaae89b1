"""``make mutants``: small changes in the modules that decide, and whether the unit tests notice them."""

import argparse
import secrets
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from mutation.edits import Edit
from mutation.equal import reason
from mutation.session import Run, Verdict
from mutation.targets import ROOT, UNIT_TESTS, packages


class Score:
    """Counts by package, and the names of those that no test noticed."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[Verdict]] = defaultdict(Counter)
        self.equal: Counter[str] = Counter()

    def tell(self, package: str, edit: Edit, verdict: Verdict, tests: int) -> None:
        """Count one, and print it where no test noticed: with the reason, or as a gap."""
        why = reason(edit) if verdict in {Verdict.SURVIVED, Verdict.UNREACHED} else None
        if why is None:
            self.counts[package][verdict] += 1
        else:
            self.equal[package] += 1
        if verdict in {Verdict.SURVIVED, Verdict.UNREACHED}:
            place = f"{Path(edit.place.file).relative_to(ROOT)}:{edit.line}"
            found = f"{verdict} ({tests} tests)" if why is None else f"equal ({why})"
            print(f"{place} {edit.place.function}: {edit.what}: {found}", flush=True)

    def table(self) -> str:
        """A line for each package; the score is of the changes that can be noticed."""
        columns = ("changes", "equal", "killed", "survived", "unreached")
        lines = [f"{'package':20}{''.join(f'{one:>11}' for one in columns)}{'score':>9}"]
        every = (sum(self.counts.values(), Counter()), self.equal.total())
        packages = [(package, counts, self.equal[package]) for package, counts in self.counts.items()]
        for package, counts, equal in [*packages, ("all", *every)]:
            killed = counts[Verdict.KILLED] + counts[Verdict.STOPPED]
            numbers = (counts.total() + equal, equal, killed, counts[Verdict.SURVIVED], counts[Verdict.UNREACHED])
            score = 100 * killed / max(1, counts.total())
            lines.append(f"{package:20}{''.join(f'{one:11}' for one in numbers)}{score:8.1f}%")
        return "\n".join(lines)


def main() -> int:
    """Run it. 0, whatever the score: a sample is no gate."""
    parser = argparse.ArgumentParser(prog="mutation")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--seconds", type=float, default=570)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="part of the path of the modules")
    parser.add_argument("--tests", nargs="*", default=UNIT_TESTS, help="folders of tests/unit")
    given = parser.parse_args()
    seed = secrets.randbelow(10_000) if given.seed is None else given.seed
    chosen = {name: kept for name, files in packages().items() if (kept := [f for f in files if given.only in str(f)])}
    print(f"SEED={seed}", flush=True)
    score = Score()
    run = Run(chosen, seed, given.seconds, given.workers, score.tell)
    started = time.monotonic()
    tests = [str(ROOT / "tests" / "unit" / name) for name in given.tests]
    code = pytest.main(["-q", "-s", "-p", "no:cacheprovider", "--rootdir", str(ROOT), *tests], plugins=[run])
    print(f"\n{score.table()}\nSEED={seed}, {time.monotonic() - started:.0f} s")
    return int(code)


if __name__ == "__main__":
    raise SystemExit(main())
