"""What images are put on: a base of a registry, or one made of Debian's packages where no registry can be reached.

`BASE=local` makes three: a Debian with Python and pip for the build stage, out of it a root with Python alone for the
images (`runtime_root`), so that both have the same C library, and one with a shell for the simulated AIM images, whose
profiles a shell lists (PR-091). Only the first trusts what this machine trusts.
"""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from aim_packaging.images import runtime_root
from aim_packaging.images.builders import Build, Builder, ImagesError, cache_folder
from aim_packaging.images.layout import architecture
from aim_packaging.tree import TIME

LOCAL: Final = "local"
DEFAULT: Final = "docker.io/library/python:3.11-slim-bookworm"
SUITE: Final = "bookworm"
PACKAGES: Final = ("python3", "python3-pip", "ca-certificates", "python-is-python3", "tzdata")
_AUTHORITIES: Final = "/etc/ssl/certs/ca-certificates.crt"
_PIP: Final = {
    "PIP_INDEX_URL": "index-url",
    "PIP_EXTRA_INDEX_URL": "extra-index-url",
    "PIP_TRUSTED_HOST": "trusted-host",
}
_CONTAINERFILE: Final = f"""\
FROM scratch AS debian
ADD base.tar /
CMD ["python"]

FROM debian AS root
COPY runtime_root.py /runtime_root.py
RUN ["python3", "/runtime_root.py", "/root-of-images"]

FROM scratch AS base
COPY --from=root /root-of-images /
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8
CMD ["python"]

FROM base AS engine-base
COPY --from=debian /usr/bin/dash /usr/bin/sh
COPY --from=debian /usr/bin/base64 /usr/bin/find /usr/bin/sort /usr/bin/tr /usr/bin/
COPY --from=debian /usr/lib/*-linux-gnu/libpcre2-8.so.0 /usr/lib/*-linux-gnu/libselinux.so.1 /usr/lib/

FROM debian AS build-base
COPY ca-certificates.crt {_AUTHORITIES}
COPY pip.conf /etc/pip.conf
"""


class Bases(NamedTuple):
    """Names of images.

    Attributes:
        base: what the Containerfile takes as `BASE`.
        build_base: what it takes as `BUILD_BASE`.
        engine_base: below the simulated AIM images; has a shell.
    """

    base: str
    build_base: str
    engine_base: str


def bases_for(builder: Builder, base: str = "", build_base: str = "", *, mirror: str = "") -> Bases:
    """The bases to build on; those that are not there are made or pulled.

    Args:
        base: a name on a registry, `local`, or empty for the default.
        build_base: another one for the build stage; empty for the same, or the local one's.
        mirror: of Debian, for `local`; empty for the default of mmdebstrap.

    Raises:
        ImagesError: a base cannot be had.
    """
    if LOCAL in {base, build_base}:
        local = local_bases(builder, cache_folder(), mirror)
        return Bases(
            local.base if base in {LOCAL, ""} else base,
            local.build_base if build_base in {LOCAL, ""} else build_base,
            local.engine_base if base in {LOCAL, ""} else base,
        )
    found = Bases(base or DEFAULT, build_base or base or DEFAULT, base or DEFAULT)
    for name in dict.fromkeys(found):
        if not builder.has(name):
            try:
                builder.pull(name)
            except ImagesError as error:
                hint = "check the name and the network, or set BASE=local for a base of Debian's packages"
                raise ImagesError(f"base image {name} not available: {error}; {hint}") from error
    return found


def local_bases(builder: Builder, folder: Path, mirror: str = "", *, fresh: bool = False) -> Bases:
    """The bases of Debian's packages, made once for each list of packages.

    Args:
        folder: where the archive of the packages stays.
        fresh: make the images again, of the same archive.

    Raises:
        ImagesError: mmdebstrap is missing or fails, or the builder does.
    """
    own = Path(runtime_root.__file__).read_bytes()
    key = _key(SUITE, PACKAGES, TIME, architecture(), _CONTAINERFILE, own.decode())
    place = folder / f"debian-{key}"
    place.mkdir(parents=True, exist_ok=True)
    archive = place / "base.tar"
    if not archive.is_file():
        _bootstrap(archive, mirror)
    machine = {"ca-certificates.crt": _authorities(), "pip.conf": _pip_configuration(os.environ).encode()}
    for name, content in {**machine, "Containerfile": _CONTAINERFILE.encode(), "runtime_root.py": own}.items():
        (place / name).write_bytes(content)
        (place / name).chmod(0o600 if name == "pip.conf" else 0o644)
    of_machine = _key(*(content.decode() for content in machine.values()))
    bases = Bases(
        base=f"localhost/aim-engine-base:{key}",
        build_base=f"localhost/aim-engine-build-base:{key}-{of_machine}",
        engine_base=f"localhost/aim-engine-engine-base:{key}",
    )
    for field, name in bases._asdict().items():
        if fresh or not builder.has(name):
            target = field.replace("_", "-")
            builder.build(Build(place / "Containerfile", place, name, target, fresh=fresh and target == "base"))
    return bases


def _bootstrap(archive: Path, mirror: str) -> None:
    """Put a Debian with the packages into an archive, which depends on nothing but their versions."""
    program = shutil.which("mmdebstrap")
    if program is None:
        raise ImagesError(
            "base image local not made: mmdebstrap is not on the PATH; install the Debian package mmdebstrap, "
            "or set BASE to an image of a registry"
        )
    unfinished = archive.with_suffix(".new.tar")
    options = ("--quiet", "--variant=minbase", f"--include={','.join(PACKAGES)}")
    command = [program, *options, SUITE, str(unfinished), *((mirror,) if mirror else ())]
    env = {**os.environ, "SOURCE_DATE_EPOCH": str(TIME)}
    done = subprocess.run(command, check=False, env=env, stdout=2)  # noqa: S603
    if done.returncode != 0:
        unfinished.unlink(missing_ok=True)
        raise ImagesError(
            f"base image local not made: mmdebstrap ended with code {done.returncode}, its output is above; "
            "check that a Debian mirror can be reached, or name one with MIRROR"
        )
    unfinished.replace(archive)


def _authorities() -> bytes:
    """Those that this machine trusts, so that pip reaches what this machine reaches."""
    file = Path(os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE") or _AUTHORITIES)
    return file.read_bytes() if file.is_file() else b""


def _pip_configuration(env: Mapping[str, str]) -> str:
    """Where pip of this machine finds packages, for the build stage alone."""
    lines = [f"{option} = {env[name]}" for name, option in _PIP.items() if env.get(name)]
    return "\n".join(["[global]", *lines, ""])


def _key(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]
