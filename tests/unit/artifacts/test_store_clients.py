"""How the client of an S3 store is set up."""

import pytest

from aim_artifacts.downloader.s3_client import open_client

PROXY = "http://proxy.corp:3128"


@pytest.mark.spec("FW-791")
@pytest.mark.parametrize(
    ("variables", "proxies"),
    [
        ({}, {"http": PROXY, "https": PROXY}),
        ({"AWS_ENDPOINT_URL": "https://store.corp"}, {"http": PROXY, "https": PROXY}),
        ({"AWS_ENDPOINT_URL": "https://10.96.4.5:9000"}, {}),
        ({"AWS_ENDPOINT_URL": "http://minio.demo.svc:9000"}, {}),
        ({"NO_PROXY": "*.amazonaws.com"}, {}),
        ({"NO_PROXY": "s3.eu-west-1.amazonaws.com", "AWS_REGION": "eu-west-1"}, {}),
    ],
)
def test_the_store_is_asked_as_no_proxy_says(variables: dict[str, str], proxies: dict[str, str]) -> None:
    known = {"HTTPS_PROXY": PROXY, "HTTP_PROXY": PROXY, "NO_PROXY": ".svc,10.96.0.0/12", **variables}
    assert open_client(known).meta.config.proxies == proxies  # type: ignore[attr-defined]
