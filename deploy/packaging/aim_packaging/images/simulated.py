"""Images that only demos and tests need: the simulated AIM images, and the broker of the chart.

They need no builder: a layer with a file or two above layers that the layout has.
"""

import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from aim_local.engine import program as engine_program
from aim_local.registry.images import DEMO_IMAGES, DemoImage
from aim_local.registry.profiles import ModelFile, Profile
from aim_packaging.images.builders import ImagesError
from aim_packaging.images.layout import File, Image, Layer, Layout, MissingImageError

HOST: Final = "docker.io"
_USER: Final = "65532:65532"
_PATH: Final = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_FOLDER: Final = engine_program.FOLDER.lstrip("/")
_PROFILES: Final = f"{_FOLDER}/profiles"
_PROGRAM: Final = f"{_FOLDER}/aim.py"
_CUSTOM: Final = Profile("GPU", 1, "latency", "fp16", ModelFile("custom/model", 16.0), kind="unoptimized")
"""The shape of what is printed for a custom profile; the program fills in what the profile's name says."""


def put_aim_images(layout: Layout, base: str, images: Iterable[DemoImage] = DEMO_IMAGES) -> Iterator[Image]:
    """Put every tag of the demo catalogue into a layout, above a base that has Python.

    All have the base and the layer with the program in common; an image itself is its profiles and labels.

    Raises:
        ImagesError: the layout does not have the base.
    """
    try:
        below = layout.image(base)
    except MissingImageError as error:
        raise ImagesError(f"base image of the AIM images not exported: {error}") from error
    settings = layout.document(below.config.digest)["config"]
    program = layout.put_layer([File(_PROGRAM, Path(engine_program.__file__).read_bytes())])
    layers = (*layout.layers_of(below), program)
    for image in images:
        content = json.dumps(catalogue(image), sort_keys=True).encode()
        profiles = [File(f"{_PROFILES}/{path}", text.encode()) for path, text in image.files().items()]
        own = layout.put_layer([File(f"{_FOLDER}/{engine_program.CATALOGUE}", content), *profiles])
        said = [f"{variable}={value}" for variable, value in image.environment().items()]
        for tag in image.tags:
            name = f"{HOST}/{image.repository}:{tag}"
            own_settings = _settings([*settings["Env"], *said], image.labels(tag))
            yield layout.put_image(name, (*layers, own), own_settings, as_index=image.as_index)


def catalogue(image: DemoImage) -> dict[str, object]:
    """What the program of an image knows: its profiles, each with what selects it and what is printed for it."""
    profiles = [
        {
            "match": {
                "AIM_PROFILE_ID": one.profile_id,
                "AIM_GPU_MODEL": one.gpu,
                "AIM_GPU_COUNT": str(one.gpu_count),
                "AIM_METRIC": one.metric,
                "AIM_PRECISION": one.precision,
            },
            "output": one.as_output(image.model_id),
        }
        for one in image.profiles
    ]
    return {"profiles": profiles, "custom": _CUSTOM.as_output("custom/model"), "log": image.log}


def put_broker(layout: Layout, name: str) -> Image:
    """Put the broker into a layout, under the name that the chart has for it: a program that needs no other file.

    Raises:
        ImagesError: there is no nats-server.
    """
    beside = Path(sys.executable).with_name("nats-server")
    program = beside if beside.is_file() else Path(shutil.which("nats-server") or "")
    if not program.is_file():
        raise ImagesError("broker image not built: nats-server is not installed; run `make setup`")
    layer: Layer = layout.put_layer([File("nats-server", program.read_bytes(), 0o755)])
    settings = {"Entrypoint": ["/nats-server"], "Env": [_PATH], "User": _USER, "WorkingDir": "/"}
    return layout.put_image(name, [layer], settings)


def _settings(env: Iterable[str], labels: Mapping[str, str]) -> dict[str, object]:
    start = {"Entrypoint": ["python", "-u", f"/{_PROGRAM}"], "ExposedPorts": {f"{engine_program.PORT}/tcp": {}}}
    own = {"Labels": dict(labels)} if labels else {}
    return {"Env": list(env), **start, "User": _USER, "WorkingDir": "/workspace", **own}
