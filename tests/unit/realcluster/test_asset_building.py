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
from aim_local.assets.recipes import DEFINITIONS, ETCD, PROGRAMS, Wrapper

SCRIPT = """#!/bin/sh
echo "$1 $PWD" >> {log}
case "$1" in
  build) while [ $# -gt 1 ]; do [ "$1" = -o ] && echo program > "$2"; shift; done ;;
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
    return script(tmp_path, SCRIPT.format(log=log, module=module))


def script(folder: Path, text: str) -> Go:
    path = folder / "bin" / "go"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return Go(str(path))


def build(cache: Cache, go: Go, *, keda: bool = False, given: frozenset[Program] = frozenset()) -> list[str]:
    told: list[str] = []
    build_assets(cache, lambda: go, told.append, keda=keda, given=given)
    return told


def test_everything_is_made_once(tmp_path: Path, go: Go, log: Path) -> None:
    cache = Cache(tmp_path / "cache")
    told = build(cache, go)
    assert len(told) == len(PROGRAMS) - 2 + len(DEFINITIONS)
    assert all(line.endswith(" s") for line in told)
    assert not cache.program(Program.KEDA).exists()
    [file] = cache.definitions(Definitions.KEDA).iterdir()
    assert json.loads(file.read_text()) == {"apiVersion": "v1", "kind": "List", "items": [{"kind": "A"}, {"kind": "B"}]}
    calls = log.read_text()
    assert build(cache, go) == []
    assert log.read_text() == calls
    assert [line.split()[0] for line in build(cache, go, keda=True)] == ["keda-operator", "keda-scaler"]


def test_programs_that_are_given_are_not_built(tmp_path: Path, go: Go) -> None:
    cache = Cache(tmp_path / "cache")
    told = build(cache, go, given=frozenset({Program.ETCD, Program.APISERVER}))
    assert not any(line.startswith(("etcd", "kube-apiserver")) for line in told)


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
    told: list[list[str]] = []
    builders = [threading.Thread(target=lambda: told.append(build(cache, go))) for _ in range(2)]
    for one in builders:
        one.start()
    for one in builders:
        one.join()
    made = [line for lines in told for line in lines if line.endswith(" s")]
    assert len(made) == len(PROGRAMS) - 2 + len(DEFINITIONS)


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
def test_what_go_says_is_told_with_advice(said: str, advice: str) -> None:
    told = reason(f"go: downloading x v1\n{said}\n")
    assert said in told
    assert advice in told
    assert "\n" not in told


def test_an_error_told_as_json_is_found() -> None:
    told = reason('{\n\t"Path": "x",\n\t"Error": "x@v1: module lookup disabled by GOPROXY=off"\n}\n')
    assert told.startswith('"x@v1: module lookup disabled by GOPROXY=off"; check that the Go module proxy')


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
