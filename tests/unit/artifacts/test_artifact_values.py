"""Sources, filters, sizes, names of directories, masking: plain values in, plain values out."""

import threading
from pathlib import Path

import pytest
from support.artifacts import artifact

from aim_artifacts.downloader import hub, s3_verification
from aim_artifacts.downloader.download import _check_space
from aim_artifacts.downloader.environment import read_environment
from aim_artifacts.downloader.failure import DownloadError
from aim_artifacts.downloader.monitor import directory_size, progress_of
from aim_artifacts.downloader.protocols import PROTOCOL_VARIABLES, run_attempts
from aim_artifacts.downloader.reporter import NoReporter
from aim_artifacts.downloader.s3 import RemoteObject
from aim_artifacts.downloader.s3_client import endpoint_of, open_client
from aim_artifacts.downloader_contract import ExitCode, FilterError, parse_selection
from aim_artifacts.jobs import effective_filter
from aim_artifacts.size_stage import find_size
from aim_artifacts.source import SourceError, effective_model_id, mount_point, parse_source
from aim_domain import AIMArtifact, RuntimeConfigSpec, masked
from aim_domain.pods.log_patterns import LogGroup, match_log
from controller_runtime import JsonObject

FILES = ["config.json", "model.safetensors", "onnx/model.onnx", "original/consolidated.00.pth", ".gitattributes"]


@pytest.mark.spec("AR-110", "AR-111", "AR-112", "AR-113")
@pytest.mark.parametrize(
    ("uri", "given", "effective"),
    [
        ("hf://meta-llama/Llama-3-8B", None, "meta-llama/Llama-3-8B"),
        ("hf://meta-llama/Llama-3-8B/", None, "meta-llama/Llama-3-8B"),
        ("hf://gpt2", None, "gpt2"),
        ("hf://a/b/c", None, "a/b"),
        ("s3://bucket/team/llama", "my-team/fine-tuned-llama", "my-team/fine-tuned-llama"),
        ("s3://bucket/team/llama", None, ""),
    ],
)
def test_effective_model_id(uri: str, given: str | None, effective: str) -> None:
    assert effective_model_id(given, uri) == effective


@pytest.mark.spec("AR-575", "FW-346")
@pytest.mark.parametrize(
    ("model", "directory"),
    [("a/b", "a/b"), ("", "fallback"), (".", "fallback"), ("..", "fallback"), ("../a", "a"), ("a/../b", "a//b")],
)
def test_mount_point(model: str, directory: str) -> None:
    assert mount_point(model, "fallback") == f"/workspace/cache/{directory}"


@pytest.mark.spec("AR-110", "AR-702")
@pytest.mark.parametrize(
    ("uri", "scheme", "path", "bucket", "key"),
    [
        ("hf://org/name/", "hf", "org/name", "org", "name"),
        ("s3://bucket/models/a/", "s3", "bucket/models/a", "bucket", "models/a"),
        ("s3://bucket", "s3", "bucket", "bucket", ""),
    ],
)
def test_parts_of_a_source(uri: str, scheme: str, path: str, bucket: str, key: str) -> None:
    source = parse_source(uri)
    assert (source.scheme, source.path, source.bucket, source.key) == (scheme, path, bucket, key)


@pytest.mark.spec("AR-702")
@pytest.mark.parametrize("uri", ["", "hf://", "ftp://a/b", "org/model"])
def test_texts_that_are_no_source(uri: str) -> None:
    with pytest.raises(SourceError):
        parse_source(uri)


@pytest.mark.spec("AR-401", "AR-402", "AR-403", "AR-404", "AR-406", "SC-050", "AR-P18", "AR-P19")
@pytest.mark.parametrize(
    ("text", "selected"),
    [
        (None, ["config.json", "model.safetensors", ".gitattributes"]),
        ("", ["config.json", "model.safetensors", ".gitattributes"]),
        ("{}", FILES),
        ('{"include":["*.safetensors","config.json"]}', ["config.json", "model.safetensors"]),
        ('{"exclude":["*.bin"]}', FILES),
        ('{"exclude":["*/*","*.safetensors"]}', ["config.json", ".gitattributes"]),
        ('{"include":["onnx/"]}', ["onnx/model.onnx"]),
        ('{"include":[],"exclude":[]}', FILES),
        ('{"include":["*"],"exclude":["*"]}', []),
        ('{"include":["CONFIG.JSON"]}', []),
    ],
)
def test_selected_files(text: str | None, selected: list[str]) -> None:
    assert parse_selection(text).select(FILES) == selected


@pytest.mark.spec("AR-406")
@pytest.mark.parametrize("text", ["no json", "[]", '{"include":"x"}', '{"exclude":[1]}'])
def test_texts_that_are_no_filter(text: str) -> None:
    with pytest.raises(FilterError):
        parse_selection(text)


@pytest.mark.spec("RC-115", "AR-400", "SC-051", "SC-052")
@pytest.mark.parametrize(
    ("own", "configured", "effective"),
    [
        (None, None, '{"exclude":["*/*"]}'),
        (None, {}, "{}"),
        ({"exclude": ["*.bin"]}, {}, '{"exclude":["*.bin"]}'),
        ({}, {"include": ["*.json"]}, "{}"),
        (None, {"include": ["*.json"]}, '{"include":["*.json"]}'),
    ],
)
def test_precedence_of_filters(own: JsonObject | None, configured: JsonObject | None, effective: str) -> None:
    spec = {} if own is None else {"downloadFilter": own}
    config = {} if configured is None else {"storage": {"downloadFilter": configured}}
    found = effective_filter(AIMArtifact.model_validate(artifact(spec=spec)), RuntimeConfigSpec.model_validate(config))
    assert found == effective


@pytest.mark.spec("AR-156", "AR-157")
@pytest.mark.parametrize(
    ("message", "tail", "size"),
    [
        ('{"sizeBytes":5}', '{"sizeBytes":6}', 5),
        ("", 'x\n{"sizeBytes":6}\ny', 6),
        ("garbage", '{"sizeBytes":6}\n{"sizeBytes":7}', 7),
        ("", "\n".join(['{"sizeBytes":6}', *["x"] * 20]), None),
        ("", None, None),
        (f'{{"sizeBytes":{1 << 50}}}', None, 1 << 50),
    ],
)
def test_size_output(message: str, tail: str | None, size: int | None) -> None:
    assert find_size(message, tail) == size


@pytest.mark.spec("AR-352", "FW-343")
@pytest.mark.parametrize(
    "secret",
    [
        "hf_abcdefghij",
        "AKIAIOSFODNN7EXAMPLE",
        "https://x/?Signature=abc%2Bdef&b=1",
        "Authorization: Bearer abc.def",
        "https://user:password@proxy/",
    ],
)
def test_credentials_are_masked(secret: str) -> None:
    shown = masked(f"before {secret}")
    assert "***" in shown
    for part in ("abcdefghij", "IOSFODNN7", "abc%2Bdef", "abc.def", "password"):
        assert part not in shown


@pytest.mark.spec("AR-765")
@pytest.mark.parametrize(
    ("code", "group"),
    [
        (ExitCode.AUTH, LogGroup.AUTH),
        (ExitCode.SOURCE_NOT_FOUND, LogGroup.SOURCE_NOT_FOUND),
        (ExitCode.STORAGE_FULL, LogGroup.STORAGE_FULL),
    ],
)
def test_the_line_for_people_matches_the_log_patterns(code: ExitCode, group: LogGroup) -> None:
    found = match_log(DownloadError(code, "something").line())
    assert found is not None
    assert found.group is group


@pytest.mark.spec("AR-765")
def test_the_termination_message_fits() -> None:
    assert len(DownloadError(ExitCode.AUTH, "ü" * 100_000).termination_message()) <= 4096


@pytest.mark.spec("AR-300", "AR-301")
@pytest.mark.parametrize(("current", "expected", "percentage"), [(0, 10, 0), (5, 0, 0), (1, 3, 33), (10, 10, 99)])
def test_progress(current: int, expected: int, percentage: int) -> None:
    members = progress_of(current, expected)
    assert members["percentage"] == percentage
    assert members["displayPercentage"] == f"{percentage} %"


@pytest.mark.spec("AR-703", "AR-721")
def test_environment() -> None:
    found = read_environment({"AIM_DOWNLOADER_PROTOCOL": " xet, ,Http"})
    assert found.protocols == ("XET", "HTTP")
    assert (found.stall_timeout, found.progress_interval, found.max_workers) == (120, 5, 8)
    assert found.expected_size is None
    assert str(found.target) == "/cache"


@pytest.mark.spec("AR-703")
@pytest.mark.parametrize(
    ("variables", "endpoint"),
    [
        ({}, None),
        ({"AWS_ENDPOINT_URL": "http://minio:9000/"}, "http://minio:9000"),
        ({"AWS_ENDPOINT_URL": "https://minio", "S3_NO_SSL": "true"}, "http://minio"),
        ({"S3_ENDPOINT": "minio:9000", "S3_USE_HTTPS": "0"}, "http://minio:9000"),
        ({"S3_ENDPOINT": "minio:9000"}, "https://minio:9000"),
        ({"S3_ENDPOINT": "a", "AWS_ENDPOINT_URL": "http://b"}, "http://b"),
    ],
)
def test_s3_endpoint(variables: dict[str, str], endpoint: str | None) -> None:
    assert endpoint_of(variables) == endpoint


@pytest.mark.spec("AR-724", "AR-807")
def test_what_cannot_be_continued_is_dropped(tmp_path: Path) -> None:
    below = tmp_path / ".cache" / "huggingface" / "download" / "sub"
    below.mkdir(parents=True)
    (below / "x.incomplete").write_bytes(b"x")
    (below / "y.incomplete").write_bytes(b"y")
    (below / "x.metadata").write_bytes(b"x")
    hub.drop_incomplete(tmp_path, keep=[below / "y.incomplete"])
    assert sorted(path.name for path in below.iterdir()) == ["x.metadata", "y.incomplete"]


@pytest.mark.spec("AR-751")
def test_a_download_that_can_not_fit_does_not_begin(tmp_path: Path) -> None:
    environment = read_environment({"TARGET_DIR": str(tmp_path)})
    _check_space(environment, 1)
    with pytest.raises(DownloadError) as failure:
        _check_space(environment, 1 << 60)
    assert failure.value.code is ExitCode.STORAGE_FULL


@pytest.mark.spec("AR-722", "AR-723", "AR-P16")
async def test_protocols_of_the_hub_s_client(capsys: pytest.CaptureFixture[str]) -> None:
    tried: list[str] = []

    async def attempt(protocol: str) -> None:
        tried.append(protocol)

    assert {name: tuple(one.values()) for name, one in PROTOCOL_VARIABLES.items()} == {
        "XET": ("0", "0"),
        "HF_TRANSFER": ("1", "1"),
        "HTTP": ("1", "0"),
    }
    assert {tuple(one) for one in PROTOCOL_VARIABLES.values()} == {("HF_HUB_DISABLE_XET", "HF_HUB_ENABLE_HF_TRANSFER")}
    await run_attempts(("HF_TRANSFER",), "HF_TRANSFER", attempt, NoReporter())
    assert tried == ["HF_TRANSFER"]
    assert "downloading over plain HTTP" in capsys.readouterr().err


@pytest.mark.spec("AR-747")
def test_the_size_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    (tmp_path / "a.incomplete").write_bytes(b"x" * 10)
    (tmp_path / "sub" / "deep" / "b").write_bytes(b"y" * 5)
    (tmp_path / "link").symlink_to(tmp_path / "a.incomplete")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert directory_size(tmp_path) == 15
    assert directory_size(tmp_path / "nowhere") == 0


@pytest.mark.spec("AR-758")
@pytest.mark.parametrize("source", ["hub", "s3"])
def test_checksums_are_computed_side_by_side(tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(2, timeout=60)

    def meeting(*_: object) -> bool:
        together.wait()
        return True

    if source == "hub":
        monkeypatch.setattr(hub, "is_intact", meeting)
        files = tuple(hub.RemoteFile(name, 1, "", None) for name in "ab")
        hub.verify(hub.Repository("org/model", "c", files), tmp_path, 2)
    else:
        monkeypatch.setattr(s3_verification, "is_intact", meeting)
        client = open_client({}, 2)
        s3_verification.verify(client, "models", [RemoteObject(name, name, 1, "") for name in "ab"], tmp_path, 2)
    assert not together.broken
