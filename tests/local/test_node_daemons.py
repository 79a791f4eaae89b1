"""Programs of a node, played by small ones: started, found by another process, ended in whatever state they are."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aim_local.node import NodeError
from aim_local.node.daemons import Daemon, Daemons

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a node runs on Linux alone")

SLEEPS = (sys.executable, "-c", "import time; time.sleep(600)")
DEAF = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1]).touch()
time.sleep(600)
"""
LEADERLESS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).syscall(60, 0)  # exit of this thread alone
"""


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    made = Daemons(tmp_path / "pids", tmp_path / "logs")
    yield made
    for name in made.names():
        made.stop(name, patience=0)


def daemon(*command: str, ready: Callable[[], str] = lambda: "", **env: str) -> Daemon:
    return Daemon("one", command or SLEEPS, ready, env)


@contextmanager
def other_process(*command: str) -> Iterator["subprocess.Popen[str]"]:
    """A process that is none of the node's; it ends with the test, however that ends."""
    with subprocess.Popen(command or SLEEPS, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def running(daemons: Daemons) -> int:
    pid = daemons.pid("one")
    assert pid is not None
    return pid


def state(pid: int) -> str:
    """The letter of its state; X once it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "X"


def record(daemons: Daemons, tmp_path: Path, **changed: object) -> None:
    file = tmp_path / "pids" / "one"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changed}))


def test_a_start_returns_once_it_is_ready(daemons: Daemons, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    script = f"import pathlib, time; pathlib.Path({str(mark)!r}).touch(); time.sleep(600)"
    daemons.start(daemon(sys.executable, "-c", script, ready=lambda: "" if mark.exists() else "no mark"))
    assert mark.exists()
    assert state(running(daemons)) in "SR"
    assert daemons.names() == ["one"]


def test_one_that_runs_is_not_started_again(daemons: Daemons) -> None:
    daemons.start(daemon())
    first = running(daemons)
    daemons.start(daemon())
    assert running(daemons) == first


def test_the_newest_comes_first(daemons: Daemons) -> None:
    for name in ("b", "a", "c"):
        daemons.start(Daemon(name, SLEEPS, lambda: "", {}))
    assert daemons.names() == ["c", "a", "b"]


def test_of_one_that_ends_before_it_is_ready_the_log_is_quoted(daemons: Daemons, tmp_path: Path) -> None:
    script = "import sys; sys.exit('flag --unknown: not defined')"
    with pytest.raises(NodeError) as caught:
        daemons.start(daemon(sys.executable, "-c", script, ready=lambda: "no answer"))
    log = tmp_path / "logs" / "one.log"
    assert str(caught.value) == (
        f"one ended before it was ready; its log {log} ends with:\nflag --unknown: not defined"
    )


def test_one_that_is_not_ready_in_time_is_named_with_what_is_missing(daemons: Daemons) -> None:
    with pytest.raises(NodeError, match=r"one not ready after 0 s: no answer; its log .* ends with:\n\(nothing\)"):
        daemons.start(daemon(ready=lambda: "no answer"), seconds=0)
    assert running(daemons), "it is left to look at"


def test_one_that_ended_while_it_was_started_does_not_run(daemons: Daemons, tmp_path: Path) -> None:
    daemons.start(daemon())
    os.kill(running(daemons), signal.SIGKILL)
    wait_for(lambda: daemons.pid("one") is None)
    record(daemons, tmp_path, started=None)  # what a start notes that finds it ended
    assert daemons.pid("one") is None


def test_a_number_that_another_process_has_got_is_not_taken_for_ours(daemons: Daemons, tmp_path: Path) -> None:
    daemons.start(daemon())
    ours = running(daemons)
    with other_process() as foreign:
        try:
            record(daemons, tmp_path, pid=foreign.pid, started=1)
            assert daemons.pid("one") is None
            daemons.stop("one")
            assert foreign.poll() is None
            assert daemons.names() == []
        finally:
            os.kill(ours, signal.SIGKILL)


def test_one_that_was_killed_does_not_run_and_is_still_listed(daemons: Daemons) -> None:
    daemons.start(daemon())
    daemons.signal("one", signal.SIGKILL)
    wait_for(lambda: daemons.pid("one") is None)
    assert daemons.names() == ["one"]
    with pytest.raises(NodeError, match="one not running: it has no process; start the node with `make node`"):
        daemons.signal("one", signal.SIGTERM)
    daemons.stop("one")
    assert daemons.names() == []


def test_a_stop_ends_it_and_forgets_it(daemons: Daemons) -> None:
    daemons.start(daemon())
    pid = running(daemons)
    daemons.stop("one")
    assert state(pid) == "X"
    assert daemons.names() == []
    daemons.stop("one")


def test_a_stopped_process_ends_in_time(daemons: Daemons) -> None:
    daemons.start(daemon())
    pid = running(daemons)
    daemons.signal("one", signal.SIGSTOP)
    wait_for(lambda: state(pid) == "T")
    begun = time.monotonic()
    daemons.stop("one", patience=60)
    assert state(pid) == "X"
    assert time.monotonic() - begun < 50, "by SIGTERM, not by SIGKILL after the patience"


def test_one_that_ignores_the_request_is_killed(daemons: Daemons, tmp_path: Path) -> None:
    mark = tmp_path / "deaf"
    daemons.start(daemon(sys.executable, "-c", DEAF, str(mark), ready=lambda: "" if mark.exists() else "hears"))
    pid = running(daemons)
    daemons.stop("one", patience=0.2)
    assert state(pid) == "X"


def test_it_has_the_variables_of_its_own_and_a_path(
    daemons: Daemons, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    daemons.start(daemon(OWN="yes"))
    pairs = Path(f"/proc/{running(daemons)}/environ").read_text().split("\0")
    found = dict(one.split("=", 1) for one in pairs if one)
    assert set(found) == {"PATH", "HOME", "OWN"}
    assert "/usr/sbin" in found["PATH"].split(":"), "iptables is there, wherever the user's PATH ends"


def test_two_starts_write_to_one_log(daemons: Daemons, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "one.log"

    def start(word: str) -> None:
        script = f"import time; print({word!r}, flush=True); time.sleep(600)"
        daemons.start(daemon(sys.executable, "-c", script, ready=lambda: "" if word in log.read_text() else "silent"))
        daemons.stop("one")

    start("first")
    start("second")
    assert log.read_text() == "first\nsecond\n"


STARTER = """
import sys, time
from pathlib import Path
from aim_local.node.daemons import Daemon, Daemons
folder = Path(sys.argv[1])
command = (sys.executable, "-c", "import time; time.sleep(600)")
Daemons(folder / "pids", folder / "logs").start(Daemon("one", command, lambda: "", {}))
print("started", flush=True)
time.sleep(600)
"""


def test_it_outlives_a_starter_that_is_killed_and_is_found(daemons: Daemons, tmp_path: Path) -> None:
    with other_process(sys.executable, "-c", STARTER, str(tmp_path)) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "started\n"
        os.kill(starter.pid, signal.SIGKILL)
    pid = running(daemons)
    assert state(pid) in "SR"
    daemons.stop("one")
    assert daemons.pid("one") is None
    assert state(pid) in "XZ", "its new parent may not have noticed yet"


KEEPER = """
import sys
import aim_local.node.__main__ as commands

class Node:
    def __init__(self, settings, report):
        pass

    def stop(self):
        print("stops", flush=True)

commands.Node = Node
commands.require_linux_and_root = lambda: None
commands.app()
"""


def test_down_waits_for_the_end_of_a_process() -> None:
    with (
        other_process() as awaited,
        other_process(sys.executable, "-c", KEEPER, "down", "--after", str(awaited.pid)) as keeper,
    ):
        wait_for(lambda: watches(keeper.pid, awaited.pid))
        assert keeper.poll() is None
        awaited.kill()
        said, _ = keeper.communicate(timeout=60)
        assert said == "stops\nthe node has ended, and left nothing\n"
        assert keeper.returncode == 0


def watches(pid: int, other: int) -> bool:
    """Whether it is in a wait for another process."""
    found = []
    for one in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            found += one.read_text().splitlines()
        except OSError:  # closed meanwhile
            continue
    return f"Pid:\t{other}" in found and state(pid) == "S"


def test_down_after_a_process_that_has_ended_does_not_wait() -> None:
    with subprocess.Popen((sys.executable, "-c", "")) as awaited:
        awaited.wait()
    command = (sys.executable, "-c", KEEPER, "down", "--after", str(awaited.pid))
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert ran.stdout.startswith("stops\n")


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the number of a system call")
def test_a_process_runs_until_its_last_thread_has_ended(daemons: Daemons) -> None:
    daemons.start(daemon(sys.executable, "-c", LEADERLESS))
    pid = running(daemons)
    deadline = time.monotonic() + 10
    while state(pid) != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert daemons.pid("one") == pid, "its files and ports are still in use"
    daemons.stop("one", patience=5)
    # Without a thread left it may still wait to be reaped by its parent.
    assert daemons.pid("one") is None
