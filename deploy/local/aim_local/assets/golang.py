"""The Go toolchain: finding it, running it, and telling in one line why it failed."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aim_local.assets.recipes import CUTS, Program, ProgramRecipe, Wrapper, linker_flags
from controller_runtime import loads

_LONGEST: Final = 300

ADVICE: Final[Mapping[re.Pattern[str], str]] = {
    re.compile(r"requires go (?:>= )?[\d.]+|toolchain not available"): (
        "install that version of Go or a newer one, or set GOTOOLCHAIN=auto so that Go gets it"
    ),
    re.compile(r"checksum mismatch|SECURITY ERROR"): (
        "the module differs from what go.sum pins; do not use it, and look at what `go env GOPROXY` names"
    ),
    re.compile(
        r"lookup disabled|dial tcp|no such host|proxyconnect|i/o timeout|connection re|TLS handshake|40[0-9]|50[0-9]"
    ): ("check that the Go module proxy (`go env GOPROXY`) can be reached and has the module"),
    re.compile(r"no space left on device"): (
        "free some gigabytes, or let AIM_KUBE_ASSETS, GOCACHE and GOMODCACHE name folders on another disk"
    ),
    re.compile(
        r"signal: killed|cannot allocate memory"
    ): "the machine ran out of memory; set GOFLAGS=-p=1 and try again",
}
"""What to do, by what Go says."""
_OTHERWISE: Final = "run the command by hand to see all of its output"


class AssetError(Exception):
    """Something could not be built or found; the message is one line that says what and what to do."""


@dataclass(frozen=True, slots=True)
class Go:
    """A Go toolchain."""

    binary: str

    @classmethod
    def find(cls) -> "Go":
        """The toolchain on the PATH.

        Raises:
            AssetError: there is none.
        """
        binary = shutil.which("go")
        if binary is None:
            raise AssetError(
                "Go is not installed, and the real cluster's programs are built with it: install Go 1.26 or newer "
                "(https://go.dev/dl); KUBEBUILDER_ASSETS replaces only etcd, kube-apiserver and kubectl"
            )
        return cls(binary)

    def build(self, wrapper: Wrapper, recipes: Mapping[Program, ProgramRecipe], folder: Path) -> None:
        """Build programs of one wrapper into ``folder``, under their names, at once: a linker uses one core.

        Modules that are not there yet are downloaded.

        Raises:
            AssetError: one could not be built.
        """
        packages = [one.package for one in recipes.values()]
        flags = ("-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", linker_flags(recipes.values()))
        source = self._source(wrapper, folder / "source")
        self._run(wrapper, ", ".join(recipes), source, "build", *flags, "-o", f"{folder}/", *packages)
        for program, recipe in recipes.items():
            (folder / recipe.output).rename(folder / program)

    def _source(self, wrapper: Wrapper, copy: Path) -> Path:
        """The folder to build in: the wrapper's, or a copy of it beside the cut module that its go.mod names."""
        cut = CUTS.get(wrapper.name)
        if cut is None:
            return wrapper.folder
        shutil.copytree(wrapper.folder, copy)
        module = copy / cut.folder
        # Modules in the cache of Go are read-only.
        shutil.copytree(self.module_folder(cut.wrapper), module, copy_function=shutil.copyfile)
        for one in (module, *module.rglob("*")):
            if one.is_dir():
                one.chmod(0o755)
        for one in (module / cut.emptied).iterdir():
            if one.name != cut.kept:
                shutil.rmtree(one) if one.is_dir() else one.unlink()
        shutil.copytree(wrapper.folder / cut.filled, module / cut.emptied, dirs_exist_ok=True)
        return copy

    def module_folder(self, wrapper: Wrapper) -> Path:
        """Where the files of the wrapped module are; it is downloaded if they are not there yet.

        Raises:
            AssetError: it could not be had.
        """
        what = f"module {wrapper.module}"
        found = loads(self._run(wrapper, what, wrapper.folder, "mod", "download", "-json", wrapper.module))
        return Path(str(found["Dir"]))

    def _run(self, wrapper: Wrapper, what: str, folder: Path, *arguments: str) -> str:
        command = [self.binary, *arguments]
        # Programs without cgo need no C compiler and run whatever the C library is.
        env = {**os.environ, "CGO_ENABLED": "0"}
        ran = subprocess.run(  # noqa: S603 - the command is built from the table of recipes alone
            command, cwd=folder, env=env, check=False, capture_output=True, text=True
        )
        if ran.returncode:
            why = reason(ran.stdout + ran.stderr)
            raise AssetError(
                f"{what} {wrapper.version} can't be had: {why} ({_shown_command(command)} in {wrapper.folder})"
            )
        return ran.stdout


def reason(output: str) -> str:
    """The line of Go's output that tells most, and what to do about it."""
    # With `-json` Go tells the error as a member of an object.
    lines = [line.strip().removeprefix('"Error": ') for line in output.splitlines() if line.strip(" \t{}")]
    for pattern, advice in ADVICE.items():
        for line in lines:
            if pattern.search(line):
                return f"{line[:_LONGEST]}; {advice}"
    return f"{lines[-1][:_LONGEST] if lines else 'no output'}; {_OTHERWISE}"


def _shown_command(command: Sequence[str]) -> str:
    return f"go {' '.join(command[1:3])} …"
