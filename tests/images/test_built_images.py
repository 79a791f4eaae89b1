"""The images as buildah makes them: settings, contents, what they share, engines, and pushing them to a real registry.

`make test-built-images` runs it, on Linux as root with buildah; bases and layers of an earlier run are taken again.
"""

import http.client
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import docker_registry
from support.built_images import ROOT, Unpacker, files, images, settings

from aim_domain.services import SERVICES
from aim_local.ports import free_port
from aim_local.registry.images import DEMO_IMAGES, discovery_log
from aim_packaging.images import table
from aim_packaging.images.commands import LAYOUT, NAMES, path_of
from aim_packaging.images.layout import INDEX, Image, Layout
from aim_packaging.tree import module_of, packages_of

SHELLS = {"sh", "bash", "dash", "busybox", "ash"}
DUMMY = "docker.io/amdenterpriseai/aim-dummy:0.1.0"
QWEN = "docker.io/amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
pytestmark = pytest.mark.timeout(2400)


@pytest.fixture(scope="module")
def layout() -> Layout:
    """All images, on a base of Debian's packages, where `make images BASE=local` puts them."""
    images("build", "--base", "local")
    images("engines", "--base", "local")
    return Layout(ROOT / LAYOUT)


@pytest.fixture(scope="module")
def platform(layout: Layout) -> dict[str, Image]:
    """The platform's images by their short names."""
    found = {one.name.rpartition(":")[0].rpartition("aim-engine-")[2]: one for one in layout.images()}
    return {name: found[name] for name in NAMES}


@pytest.fixture(scope="module")
def unpacker(layout: Layout, tmp_path_factory: pytest.TempPathFactory) -> Unpacker:
    """Unpacks images of the layout."""
    return Unpacker(layout, tmp_path_factory.mktemp("layers"))


@pytest.mark.spec("FW-543", "FW-721")
@pytest.mark.parametrize("name", NAMES)
def test_an_image_runs_as_its_own_user_without_a_shell(layout: Layout, platform: dict[str, Image], name: str) -> None:
    said = settings(layout, platform[name])
    assert said["User"] == ("1000:1000" if name == "downloader" else "65532:65532")
    assert said["Entrypoint"] == ["python", "/opt/aim/start"]
    labels = said["Labels"]
    assert isinstance(labels, dict)
    assert labels["org.opencontainers.image.title"] == f"aim-engine-{name}"
    held = files(layout, platform[name])
    programs = {Path(path).name for path in held if Path(path).parent.name in {"bin", "sbin"}}
    assert not programs & {*SHELLS, "pip", "apt", "apt-get", "dpkg", "perl"}
    assert {"python", "env"} <= programs
    assert [path for path, one in held.items() if one.isfile() and one.mode & 0o6002] == []


@pytest.mark.spec("FW-543")
@pytest.mark.parametrize("name", NAMES)
def test_an_image_starts_what_it_is_for_on_a_read_only_root(
    platform: dict[str, Image], unpacker: Unpacker, name: str
) -> None:
    image = unpacker.unpack(platform[name])
    module = module_of(name, packages_of(ROOT)[name])
    code = (
        f"import importlib, os, ssl; importlib.import_module('{module}.__main__');"
        "assert ssl.create_default_context().cert_store_stats()['x509_ca'] > 100;"
        "open('/tmp/written', 'w').close();"
        "print(os.getuid(), importlib.import_module('typing').__cached__)\n"
        "try: open('/opt/aim/written', 'w')\n"
        "except OSError as error: print(error.errno)"
    )
    done = image.run("-c", code, entrypoint=("python",))
    assert done.returncode == 0, done.stderr
    user, cached, refused = done.stdout.split()
    assert (user, refused) == (image.user.partition(":")[0], "30")
    # Compiled by content, so that no start compiles the standard library anew, whatever time its files have.
    [compiled] = [one / cached.lstrip("/") for one in image.layers if (one / cached.lstrip("/")).exists()]
    assert compiled.read_bytes()[4:8] == b"\x01\0\0\0"


@pytest.mark.spec("AR-700", "AR-701", "AR-702")
@pytest.mark.parametrize("entry", ["/check-size.sh", "/storage-initializer/scripts/initializer-entrypoint"])
def test_the_other_entry_points_of_the_downloader_start(
    platform: dict[str, Image], unpacker: Unpacker, entry: str
) -> None:
    done = unpacker.unpack(platform["downloader"]).run("ftp://nowhere/has/it", entrypoint=(entry,))
    assert done.returncode == 2
    assert "ftp" in done.stdout + done.stderr


@pytest.mark.spec("FW-543")
def test_five_services_cost_little_more_than_one_to_pull(platform: dict[str, Image]) -> None:
    services = [platform[name] for name in SERVICES if name != "artifacts"]
    for one in services:
        assert [layer.digest for layer in one.layers[:-1]] == [layer.digest for layer in services[0].layers[:-1]]
        assert one.layers[-1].size < 2_000_000
    assert table.pulled(services) < 1.1 * services[0].size
    downloads = [platform[name] for name in ("artifacts", "downloader", "cli")]
    assert len({one.layers[-3].digest for one in downloads}) == 1, "the libraries of downloads are one layer"
    assert table.pulled(platform.values()) < 2 * platform["downloader"].size


@pytest.mark.spec("FW-721")
def test_a_second_build_from_nothing_gives_the_same_digest() -> None:
    images("check", "routing", "--base", "local")


@pytest.mark.parametrize(
    "env",
    [{}, {"AIM_METRIC": "throughput"}, {"AIM_GPU_MODEL": "MI325X", "AIM_GPU_COUNT": "2"}, {"AIM_GPU_MODEL": "H100"}],
    ids=str,
)
def test_a_simulated_image_prints_for_discovery_what_the_catalogue_says(
    layout: Layout, unpacker: Unpacker, env: dict[str, str]
) -> None:
    done = unpacker.unpack(layout.image(QWEN)).run("dry-run", "--format=json", **env)
    expected = discovery_log(QWEN, env)
    if expected is None:
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1
        assert "no profile of this image fits" in done.stderr
    else:
        assert json.loads(done.stdout) == json.loads(expected)


def test_every_tag_of_the_catalogue_has_its_labels_and_weighs_next_to_nothing(layout: Layout) -> None:
    wanted = {f"docker.io/{one.repository}:{tag}": one.labels(tag) for one in DEMO_IMAGES for tag in one.tags}
    found = {one.name: one for one in layout.images()}
    for name, labels in wanted.items():
        assert settings(layout, found[name]).get("Labels", {}) == labels
        assert found[name].layers[-1].size < 2_000
    assert found[QWEN].top.media_type == INDEX
    assert found[DUMMY].top == found[DUMMY].manifest


@pytest.fixture
def engine(layout: Layout, unpacker: Unpacker, tmp_path: Path) -> Iterator[tuple[int, "subprocess.Popen[str]"]]:
    """The engine of the dummy image, and its port."""
    image = unpacker.unpack(layout.image(DUMMY))
    port = free_port()
    env = image.env(AIM_PORT=str(port))
    with subprocess.Popen(image.command(), env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "serving HuggingFaceTB/SmolLM2-135M" in process.stdout.readline()
            yield port, process
        finally:
            process.kill()


def test_the_engine_of_a_simulated_image_answers_and_ends_at_sigterm(
    engine: tuple[int, "subprocess.Popen[str]"],
) -> None:
    port, process = engine
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    body = json.dumps({"messages": [{"role": "user", "content": "hello"}], "stream": True})
    connection.request("POST", "/v1/chat/completions", body)
    events = connection.getresponse().read().decode().strip().split("\n\n")
    assert events[-1] == "data: [DONE]"
    parts = [json.loads(one.removeprefix("data: "))["choices"][0] for one in events[:-1]]
    assert "You said: hello" in "".join(one["delta"].get("content", "") for one in parts)
    connection.close()
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def test_all_images_reach_a_registry_and_what_it_has_is_not_sent_again(layout: Layout, tmp_path: Path) -> None:
    with docker_registry.running(docker_registry.obtain(), tmp_path) as registry:
        begun = time.monotonic()
        first = pushed(layout, registry.host)
        assert time.monotonic() - begun < 300
        names = [one.name for one in layout.images() if not one.name.startswith("localhost/")]
        assert sorted(first) == sorted(names)
        assert not any("there already" in line for line in first.values())
        assert all("there already" in line for line in pushed(layout, registry.host).values())
        for name in (QWEN, DUMMY, "docker.io/library/nats:2.12.2-alpine"):
            image = layout.image(name)
            repository, tag = path_of(name)
            connection = http.client.HTTPConnection(registry.host, timeout=20)
            connection.request("GET", f"/v2/{repository}/manifests/{tag}", headers={"Accept": image.top.media_type})
            assert connection.getresponse().headers["Docker-Content-Digest"] == image.top.digest
            connection.close()


def pushed(layout: Layout, host: str) -> dict[str, str]:
    """What the command says of each image."""
    command = [sys.executable, "-m", "aim_packaging", "images", "push", "--to", host, "--layout", str(layout.folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def test_the_broker_of_the_chart_starts_from_its_image(layout: Layout, unpacker: Unpacker) -> None:
    done = unpacker.unpack(layout.image("docker.io/library/nats:2.12.2-alpine")).run("--version")
    assert done.returncode == 0, done.stderr
    assert "nats-server: v" in done.stdout + done.stderr
