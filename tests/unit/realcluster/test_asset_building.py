"""Filling the cache, with a script that plays the Go toolchain: what is made, kept, and told when it fails."""

import json
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aim_local.assets import AssetError, Cache, Definitions, Program, find_toolset
from aim_local.assets import recipes as recipes_module
from aim_local.assets.__main__ import app
from aim_local.assets.build import build_assets
from aim_local.assets.cache import completed, fingerprint
from aim_local.assets.golang import Go, reason
from aim_local.assets.recipes import DEFINITIONS, ETCD, PROGRAMS, WRAPPERS, Group, Wrapper

SCRIPT = """#!/bin/sh
echo "$1 $PWD" >> {log}
case "$1" in
  build)
    while [ "$1" != -o ]; do shift; done
    folder=$2; shift 2
    for one in "$@"; do
      if [ "$one" = . ]; then one=$(sed -n 's/^module //p' go.mod); fi
      echo program > "$folder${{one##*/}}"
    done ;;
  mod) echo '{{"Dir": "{module}"}}' ;;
esac
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "calls"


@pytest.fixture
def go(tmp_path: Path, log: Path) -> Go:
    """A toolchain that makes empty programs and knows one module with a file for each pattern."""
    module = tmp_path / "module"
    for recipe in DEFINITIONS.values():
        file = module / recipe.pattern.replace("*", "x")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("kind: A\n---\nkind: B\n")
    (module / "providers" / "dns").mkdir(parents=True)
    return script(tmp_path, SCRIPT.format(log=log, module=module))


def script(folder: Path, text: str) -> Go:
    path = folder / "bin" / "go"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return Go(str(path))


def build(
    cache: Cache, go: Go, *groups: Group, given: frozenset[Program] = frozenset(), report: list[str] | None = None
) -> list[str]:
    lines: list[str] = [] if report is None else report
    build_assets(cache, lambda: go, lines.append, {Group.CONTROL_PLANE, *groups}, given)
    return lines


def built(lines: list[str]) -> list[str]:
    """Names of the programs that lines of a report name."""
    return [name for line in lines for name in line.rpartition(" v")[0].strip().split(", ") if name in tuple(Program)]


CONTROL_PLANE = [one for one, recipe in PROGRAMS.items() if recipe.group is Group.CONTROL_PLANE]


def test_everything_is_made_once(tmp_path: Path, go: Go, log: Path) -> None:
    cache = Cache(tmp_path / "cache")
    lines = build(cache, go)
    assert sorted(built(lines)) == sorted(CONTROL_PLANE)
    assert all(line.endswith(" s") for line in lines)
    assert not cache.program(Program.KEDA).exists()
    [file] = cache.definitions(Definitions.KEDA).iterdir()
    assert json.loads(file.read_text()) == {"apiVersion": "v1", "kind": "List", "items": [{"kind": "A"}, {"kind": "B"}]}
    calls = log.read_text()
    assert build(cache, go) == []
    assert log.read_text() == calls
    assert built(build(cache, go, Group.KEDA)) == [Program.KEDA, Program.KEDA_SCALER]


def test_programs_of_one_module_are_built_at_once(tmp_path: Path, go: Go, log: Path) -> None:
    build(Cache(tmp_path / "cache"), go, Group.KEDA, Group.NODE)
    folders = [line.split()[1] for line in log.read_text().splitlines() if line.startswith("build ")]
    assert len(folders) == len({recipe.wrapper for recipe in PROGRAMS.values()})


def test_a_module_is_cut_for_the_wrapper_that_asks_for_it(tmp_path: Path, go: Go) -> None:
    providers = tmp_path / "module" / "providers" / "dns"
    for name in ("internal", "cloud"):
        (providers / name).mkdir(parents=True)
        (providers / name / "code.go").touch(mode=0o444)
    seen = tmp_path / "seen"
    text = SCRIPT.format(log=tmp_path / "calls", module=tmp_path / "module")
    spying = script(tmp_path, text.replace("  build)\n", f"  build) find lego -type f >> {seen} 2>&1\n"))
    build(Cache(tmp_path / "cache"), spying, Group.NODE)
    files = {line for line in seen.read_text().splitlines() if line.startswith("lego/providers/")}
    assert files == {"lego/providers/dns/internal/code.go", "lego/providers/dns/none.go"}
    assert not list(WRAPPERS.glob("*/lego"))


def test_programs_that_are_given_are_not_built(tmp_path: Path, go: Go) -> None:
    cache = Cache(tmp_path / "cache")
    lines = build(cache, go, given=frozenset({Program.ETCD, Program.APISERVER}))
    assert set(CONTROL_PLANE) - set(built(lines)) == {Program.ETCD, Program.APISERVER}


def test_a_failed_build_leaves_nothing_and_says_why(tmp_path: Path, go: Go) -> None:
    cache = Cache(tmp_path / "cache")
    failing = script(tmp_path, "#!/bin/sh\necho 'dial tcp: lookup proxy: no such host' >&2\nexit 1\n")
    with pytest.raises(AssetError) as caught:
        build(cache, failing)
    assert "\n" not in str(caught.value)
    assert "kserve" in str(caught.value)
    assert "check that the Go module proxy" in str(caught.value)
    assert list(cache.root.rglob("*crds*")) == []


def test_what_a_killed_build_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "x" / ".partial-1"
    left.mkdir(parents=True)
    with completed(tmp_path / "x" / "program") as made:
        made.write_text("new")
    assert [one.name for one in (tmp_path / "x").iterdir()] == ["program"]


def test_an_interrupted_replacement_keeps_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "program"
    target.write_text("old")
    with pytest.raises(FileNotFoundError), completed(target) as made:
        (made / "new").touch()
    assert target.read_text() == "old"


def test_two_builds_do_the_work_once(tmp_path: Path, go: Go, log: Path) -> None:
    cache = Cache(tmp_path / "cache")
    lines: list[str] = []
    builders = [threading.Thread(target=lambda: build(cache, go, report=lines)) for _ in range(2)]
    for one in builders:
        one.start()
    for one in builders:
        one.join()
    assert sorted(built(lines)) == sorted(CONTROL_PLANE)


def test_a_changed_pin_makes_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes_module, "WRAPPERS", tmp_path)
    wrapper = Wrapper(ETCD.name, ETCD.module)
    wrapper.folder.mkdir()
    (wrapper.folder / "go.mod").write_text("require go.etcd.io/etcd/server/v3 v3.6.8\n")
    before = fingerprint(wrapper)
    (wrapper.folder / "go.mod").write_text("require go.etcd.io/etcd/server/v3 v3.6.9\n")
    assert wrapper.version == "v3.6.9"
    assert fingerprint(wrapper) != before


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("go: go.mod requires go >= 1.26.0 (running go 1.24.1; GOTOOLCHAIN=local)", "install that version of Go"),
        ("verifying x@v1: checksum mismatch", "differs from what go.sum pins"),
        ("x@v1: reading https://p/x/@v/v1.zip: 404 Not Found", "check that the Go module proxy"),
        ("write /tmp/x: no space left on device", "free some gigabytes"),
        ("compile: signal: killed", "out of memory"),
        ("something else", "run the command by hand"),
    ],
)
def test_what_go_says_is_reported_with_advice(said: str, advice: str) -> None:
    reported = reason(f"go: downloading x v1\n{said}\n")
    assert said in reported
    assert advice in reported
    assert "\n" not in reported


def test_an_error_reported_as_json_is_found() -> None:
    reported = reason('{\n\t"Path": "x",\n\t"Error": "x@v1: module lookup disabled by GOPROXY=off"\n}\n')
    assert reported.startswith('"x@v1: module lookup disabled by GOPROXY=off"; check that the Go module proxy')


def test_without_go_one_line_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("AIM_KUBE_ASSETS", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    ran = CliRunner().invoke(app, ["build"])
    assert ran.exit_code == 1
    assert ran.output.count("\n") == 1
    assert "Go is not installed" in ran.output
    assert "KUBEBUILDER_ASSETS" in ran.output


def test_the_cache_is_where_the_environment_says(tmp_path: Path) -> None:
    assert Cache.from_environment({"AIM_KUBE_ASSETS": str(tmp_path)}).root == tmp_path
    assert Cache.from_environment({"XDG_CACHE_HOME": "/c"}).root == Path("/c/aim-engine/kube-assets")
    assert Cache.from_environment({}).root == Path.home() / ".cache/aim-engine/kube-assets"


def test_given_programs_replace_built_ones(tmp_path: Path) -> None:
    for name in ("etcd", "kube-apiserver", "kubectl"):
        (tmp_path / name).touch()
    environment = {"KUBEBUILDER_ASSETS": str(tmp_path), "AIM_KUBE_ASSETS": str(tmp_path / "cache")}
    toolset = find_toolset(environment)
    assert toolset.program(Program.ETCD) == tmp_path / "etcd"
    with pytest.raises(AssetError, match=r"kserve-manager is not built .*: run `make kube-assets`"):
        toolset.program(Program.KSERVE)
    with pytest.raises(AssetError, match="run `make kube-assets KEDA=1`"):
        toolset.require(Program.KEDA)
    with pytest.raises(AssetError, match=r"gateway-crds are not there .*: run `make kube-assets`"):
        toolset.require(Program.ETCD, Definitions.GATEWAY)
    (tmp_path / "kubectl").unlink()
    with pytest.raises(AssetError, match="lacks kubectl"):
        find_toolset(environment)
