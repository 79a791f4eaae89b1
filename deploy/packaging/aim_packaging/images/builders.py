"""Programs that build images: which of them this machine has, and how each is called.

Each takes the same Containerfile. They differ in how a fixed time is given, and in how an image leaves them.
"""

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aim_packaging.images.layout import CONFIG, Layout
from aim_packaging.tree import TIME

KNOWN: Final = ("buildah", "podman", "docker")
"""In the order in which they are looked for: the first needs neither a daemon nor registries.conf."""
_POLICY: Final = Path("/etc/containers/policy.json")
_USERS: Final = 65536
"""How many a base may have."""
_ANY: Final = '{"default":[{"type":"insecureAcceptAnything"}]}'


class ImagesError(Exception):
    """Building or pushing is not possible; the text is one line with cause and remedy."""


def cache_folder() -> Path:
    """Where bases and the storage of a builder stay between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "aim-engine" / "images"


@dataclass(frozen=True, slots=True)
class Build:
    """One call of a builder.

    Attributes:
        tag: the name of the image.
        target: the stage of the Containerfile.
        arguments: values of its `ARG`s.
        fresh: use nothing of an earlier build.
    """

    containerfile: Path
    context: Path
    tag: str
    target: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Builder:
    """A program that builds images.

    Attributes:
        kind: one of `KNOWN`, whose options it takes.
        program: its path, or its name on the PATH.
        env: what it needs beside this process' environment.
    """

    kind: str
    program: str
    env: Mapping[str, str] = field(default_factory=dict)

    def command(self, build: Build) -> list[str]:
        """The command that builds an image."""
        options = {
            # All files of all layers get the time, and every instruction is a layer: equal ones are shared.
            "buildah": ("build", "--layers", "--pull=false", "--format=oci", f"--timestamp={TIME}", *self._policy()),
            "podman": ("build", "--layers", "--format=oci", f"--timestamp={TIME}"),
            "docker": ("build", "--provenance=false", "--sbom=false", f"--build-arg=SOURCE_DATE_EPOCH={TIME}"),
        }[self.kind]
        arguments = [f"--build-arg={name}={value}" for name, value in build.arguments.items()]
        fresh = ("--no-cache",) if build.fresh else ()
        files = ("--file", str(build.containerfile), "--tag", build.tag, "--target", build.target)
        return [self.program, *options, *fresh, *arguments, *files, str(build.context)]

    def build(self, build: Build) -> None:
        """Build an image; what the builder prints goes to this process' error output.

        Raises:
            ImagesError: the builder failed.
        """
        self._run(self.command(build), f"image {build.tag}")

    def has(self, name: str) -> bool:
        """Whether an image of this name is in the builder's storage."""
        done = self._call(["inspect", *(("--type", "image") if self.kind != "docker" else ()), name])
        return done.returncode == 0

    def pull(self, name: str) -> None:
        """Get an image from its registry.

        Raises:
            ImagesError: it cannot be had.
        """
        policy = self._policy() if self.kind == "buildah" else ()
        self._run([self.program, "pull", *policy, name], f"base image {name}")

    def export(self, name: str, layout: Layout) -> None:
        """Put an image of the builder's storage into a layout, with its layers compressed.

        Raises:
            ImagesError: the builder failed.
        """
        layout.folder.mkdir(parents=True, exist_ok=True)
        if self.kind == "docker":
            self._export_archive(name, layout)
            return
        policy = self._policy() if self.kind == "buildah" else ()
        command = [self.program, "push", "--quiet", *policy, "--format=oci", name, f"oci:{layout.folder}:{name}"]
        self._run(command, f"export of image {name}")

    def _export_archive(self, name: str, layout: Layout) -> None:
        """By way of `docker save`, which has the layers uncompressed."""
        with tempfile.TemporaryDirectory(dir=layout.folder) as place:
            file = Path(place, "image.tar")
            self._run([self.program, "save", "--output", str(file), name], f"export of image {name}")
            import_archive(file, name, layout)

    def _policy(self) -> tuple[str, ...]:
        """Debian's buildah comes without the file that says whose signatures are needed."""
        if _POLICY.is_file():
            return ()
        file = cache_folder() / "policy.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_ANY, encoding="utf-8")
        return ("--signature-policy", str(file))

    def _call(self, arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        return run([self.program, *arguments], self.env)

    def _run(self, command: Sequence[str], what: str) -> None:
        done = subprocess.run(command, check=False, env={**os.environ, **self.env}, stdout=2)  # noqa: S603
        if done.returncode != 0:
            raise ImagesError(f"{what} not built: {self.kind} ended with code {done.returncode}; its output is above")


def run(command: Sequence[str], env: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """A program's outcome with its output; code 127 when it cannot be run."""
    try:
        return subprocess.run(  # noqa: S603
            command, check=False, capture_output=True, text=True, env={**os.environ, **env}
        )
    except OSError as error:
        return subprocess.CompletedProcess(list(command), 127, "", str(error))


def find_builder(wanted: str = "") -> Builder:
    """The builder to use.

    Args:
        wanted: name or path of one; empty for the first of the PATH that works.

    Raises:
        ImagesError: there is none that works, with the reason of each that was found.
    """
    names = (wanted,) if wanted else tuple(name for name in KNOWN if shutil.which(name))
    if not names:
        raise ImagesError(
            f"images not built: none of {', '.join(KNOWN)} is on the PATH; install one, e.g. the Debian package buildah"
        )
    problems = []
    for name in names:
        kind = Path(name).name
        if kind not in KNOWN:
            raise ImagesError(f"builder {name} unknown; set BUILDER to {', '.join(KNOWN)} or a path that ends with one")
        builder = Builder(kind, name, _environment(kind))
        problem = _problem(builder)
        if not problem:
            return builder
        problems.append(problem)
    raise ImagesError(f"images not built: {'; '.join(problems)}")


def _environment(kind: str) -> dict[str, str]:
    """Buildah's own settings ask for a driver and a runtime that not every machine has."""
    if kind != "buildah":
        return {}
    env = {"BUILDAH_ISOLATION": os.environ.get("BUILDAH_ISOLATION", "chroot")}
    if os.geteuid() == 0 and "CONTAINERS_STORAGE_CONF" not in os.environ:
        env["CONTAINERS_STORAGE_CONF"] = str(_storage(cache_folder()))
    return env


def _storage(folder: Path) -> Path:
    """A storage of our own, so that nothing of the machine's is touched and `rm -r` of one folder removes it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "storage.conf"
    run_root = Path("/run/aim-engine-images")
    text = f'[storage]\ndriver = "overlay"\nrunroot = "{run_root}"\ngraphroot = "{folder / "storage"}"\n'
    # Else a mount of the folder onto itself stays after the builder has ended, and nothing can remove it.
    text += '[storage.options.overlay]\nskip_mount_home = "true"\n'
    file.write_text(text, encoding="utf-8")
    return file


def _problem(builder: Builder) -> str:
    """Why a builder does not work here; empty when it does."""
    if builder.kind == "docker":
        done = run([builder.program, "version", "--format", "{{.Server.Version}}"], builder.env)
        remedy = "start the Docker daemon, or install the Debian package buildah"
    elif os.geteuid() == 0:
        done = run([builder.program, "--version"], builder.env)
        remedy = "check the installation"
    else:
        # Both become root in a user namespace of their own: the kernel has to permit it, and /etc/subuid has to have
        # other users for it, as the files of a base belong to several.
        done = run([builder.program, "unshare", "cat", "/proc/self/uid_map"], builder.env)
        remedy = "run as root, or permit user namespaces and give this user ranges in /etc/subuid and /etc/subgid"
        if done.returncode == 0 and _users(done.stdout) < _USERS:
            return f"{builder.kind} does not work here: not root, and its user namespace has one user only; {remedy}"
    if done.returncode == 0:
        return ""
    said = (done.stderr or done.stdout).strip().splitlines()
    reason = said[-1].strip() if said else f"it ended with code {done.returncode}"
    return f"{builder.kind} does not work here: {reason}; {remedy}"


def _users(uid_map: str) -> int:
    """How many users a namespace has, by its `uid_map`."""
    return sum(int(line.split()[2]) for line in uid_map.splitlines())


def import_archive(file: Path, name: str, layout: Layout) -> None:
    """Put the only image of an archive of `docker save` into a layout."""
    with tempfile.TemporaryDirectory(dir=layout.folder) as place:
        with tarfile.open(file) as archive:
            archive.extractall(place, filter="data")
        root = Path(place)
        [entry] = json.loads((root / "manifest.json").read_bytes())
        content = (root / entry["Config"]).read_bytes()
        ids = json.loads(content)["rootfs"]["diff_ids"]
        layers = tuple(layout.put_compressed(i, root / path) for i, path in zip(ids, entry["Layers"], strict=True))
        layout.put_manifest(name, layout.put_blob(CONFIG, content), layers)
