"""Environment variables of everything that is no service: downloads, discovery, predictors, the command.

The services have theirs from their settings (`settings_page`). What these programs read is checked against their code.
"""

from collections.abc import Mapping
from typing import Final

from aim_packaging.reference.tables import code, table

DOWNLOADS: Final[Mapping[str, str]] = {
    "HF_TOKEN": "token of the Hub, for gated models",
    "HF_ENDPOINT": "address of the Hub or of a mirror; without, `https://huggingface.co`",
    "HF_HOME": "folder of the Hub's client; without, `/tmp/.hf`",
    "AWS_ACCESS_KEY_ID": "key for `s3://`; without one the bucket has to be public",
    "AWS_SECRET_ACCESS_KEY": "the secret half of that key",
    "AWS_SESSION_TOKEN": "token of a key that ends",
    "AWS_REGION": "region of the bucket; then `AWS_DEFAULT_REGION`, then `us-east-1`",
    "AWS_DEFAULT_REGION": "see `AWS_REGION`",
    "AWS_ENDPOINT_URL": "address of a store of your own",
    "AWS_CA_BUNDLE": "file with the authority of the store",
    "SSL_CERT_FILE": "file with the authorities for everything; for S3 where `AWS_CA_BUNDLE` is not set",
    "AIM_CA_BUNDLE": "certificate authorities in PEM, the text itself, trusted for the Hub and S3 beside the system's",
    "S3_ENDPOINT": "host and port of a store; `AWS_ENDPOINT_URL` goes before it",
    "S3_USE_HTTPS": "`0`: plain HTTP to `S3_ENDPOINT`",
    "S3_NO_SSL": "`true`: plain HTTP to the store",
    "AIM_S3_SIGNATURE_VERSION": "how requests are signed: `s3v4` (default) or `s3`",
    "AIM_DOWNLOADER_PROTOCOL": "protocols of the Hub in the order in which they are tried; `XET,HF_TRANSFER`",
    "AIM_DOWNLOAD_MAX_WORKERS": "files at a time; 8",
    "STALL_TIMEOUT": "seconds without growth after which a transfer starts again; 120, 0 = never",
    "PROGRESS_INTERVAL": "seconds between measurements of the progress; 5",
    "TMPDIR": "folder for what is temporary; `/tmp/`",
    "TARGET_DIR": "folder on the volume that the weights go to; `/cache`",
}
"""What may be set in ``env`` of an artifact, of what it is made for, or of a runtime config."""
DOWNLOADS_FIXED: Final = (
    "AIM_ADAPTER_FOLDERS",
    "AIM_ADAPTER_PLANNED_AT",
    "AIM_DOWNLOAD_FILTER",
    "AIM_TERMINATION_MESSAGE_PATH",
    "ARTIFACT_NAME",
    "ARTIFACT_NAMESPACE",
    "EXPECTED_SIZE_BYTES",
    "MOUNT_PATH",
)
"""What the service says, whatever anybody else does; what belongs to the image."""
PREDICTORS: Final[Mapping[str, str]] = {
    "AIM_CACHE_PATH": "where the weights are mounted: `/workspace/cache`",
    "VLLM_ENABLE_METRICS": "`true`",
    "AIM_MODEL_ID": "`modelId` of the first source of the template",
    "AIM_PROFILE_ID": "`profileId` of the template, or the id of the custom profile, which nothing overrides",
    "AIM_ID": "`aimId` of the template, with a custom profile alone; nothing overrides it",
    "AIM_METRIC": "`metric` of the template",
    "AIM_PRECISION": "`precision` of the template",
    "AIM_ENGINE_ARGS": "arguments of the engine as JSON; of all levels, member by member",
    "HF_HOME": "from a KaiwoConfig, if there is one",
}
DISCOVERY: Final[Mapping[str, str]] = {
    "AIM_GPU_MODEL": "GPU of the template",
    "AIM_GPU_COUNT": "how many of it",
    "AIM_METRIC": "`metric` of the template",
    "AIM_PRECISION": "`precision` of the template",
    "AIM_PROFILE_ID": "`profileId` of the template, or the id of the custom profile, which nothing overrides",
    "AIM_ID": "`aimId` of the template, with a custom profile alone; nothing overrides it",
    "AIM_LOG_LEVEL": "`CRITICAL`, so that only the profile is printed",
    "AIM_LOG_LEVEL_ROOT": "the same",
}
COMMAND: Final[Mapping[str, str]] = {
    "KUBECONFIG": "the kubeconfig, as for kubectl",
    "AIM_NATS_URL": "the broker with the event log, or a file of `aim export`",
    "AIM_NATS_ROOT": "first word of all names on the broker, where the installation has one of its own; `aim`",
    "AIM_NATS_CREDENTIALS_FILE": "file with the seed of the broker's user `aim`",
    "AIM_NATS_CA_FILE": "authority of the broker's certificate",
    "AIM_NATS_JETSTREAM_DOMAIN": "JetStream domain of the streams; empty = the server's own",
    "AIM_GATEWAY_URL": "address of the gateway for `aim chat`, where its own cannot be reached",
    "AIM_TRACE_URL": "address of a trace for `aim console`, with `{trace}` for its id",
}
_HEAD: Final = """\
# Environment variables

Those of the five services are their [settings](settings.md). All of them, downloads and the command also follow
`HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, and services the variables of OpenTelemetry ([traces](../traces.md)).
"""
_PREDICTORS: Final = """\
In this order, the later ones winning: defaults, the discovered profile, `env` of the runtime config, what the template
says, `env` of the template, `env` of the service.
"""


def page() -> str:
    """All of them, by who reads them."""
    fixed = ", ".join(map(code, DOWNLOADS_FIXED))
    return "\n".join(
        [
            _HEAD,
            "## Of downloads",
            "",
            "In `env` of AIMArtifact, of a source of weights, or of a runtime config.",
            "",
            *table(("variable", "means"), _rows(DOWNLOADS)),
            "",
            f"Set by the platform: {fixed}.",
            "",
            "## Of predictors",
            "",
            _PREDICTORS,
            *table(("variable", "is"), _rows(PREDICTORS)),
            "",
            "## Of discovery Jobs",
            "",
            "Below `env` of the template, which wins.",
            "",
            *table(("variable", "is"), _rows(DISCOVERY)),
            "",
            "## Of the aim command",
            "",
            *table(("variable", "means"), _rows(COMMAND)),
            "",
        ]
    )


def _rows(variables: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(code(name), text) for name, text in variables.items()]
