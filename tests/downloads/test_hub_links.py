"""Links and redirects in the answers of a Hub: where they lead, and where the token goes."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from httpx2 import Client, ConnectError
from support.downloads import Ended, FakeHub, Program, serving

from aim_artifacts.downloader.hub import EndpointTransport, at_endpoint, may_have_credentials

URI = "hf://org/model"
EVERYTHING = "{}"
TOKEN = "hf_canary"


@pytest_asyncio.fixture
async def elsewhere(hub: FakeHub) -> AsyncIterator[FakeHub]:
    """Another host that would answer, too."""
    other = FakeHub(files=hub.files, large=hub.large)
    async with serving(other):
        yield other


async def both(program: Program, endpoint: str, **variables: str) -> list[Ended]:
    """Size discovery and download, with a token."""
    access = {"HF_ENDPOINT": endpoint, "HF_TOKEN": TOKEN, "AIM_DOWNLOAD_FILTER": EVERYTHING, **variables}
    return [await program.check_size(URI, **access), await program.download(URI, **access)]


@pytest.mark.spec("AR-815", "AR-808")
@pytest.mark.parametrize("prefix", ["", "/mirror/hf"])
async def test_pages_of_a_list_are_asked_for_at_the_endpoint(
    program: Program, hub: FakeHub, elsewhere: FakeHub, prefix: str
) -> None:
    hub.page, hub.links, hub.prefix = 2, elsewhere.url, prefix
    for ended in await both(program, f"{hub.url}{prefix}", AIM_DOWNLOADER_PROTOCOL="HTTP"):
        assert ended.code == 0, ended.err
    assert program.files() == hub.files
    assert elsewhere.tokens == set()
    assert {token for _, token in hub.tokens} == {f"Bearer {TOKEN}"}


@pytest.mark.spec("AR-815")
@pytest.mark.parametrize(
    ("links", "prefix"),
    [
        ("https://huggingface.invalid", ""),
        ("", ""),
        ("/mirror", "/mirror"),
        ("http://inside.invalid:8080/mirror", "/mirror"),
    ],
)
async def test_a_page_is_found_wherever_its_link_leads(program: Program, hub: FakeHub, links: str, prefix: str) -> None:
    hub.page, hub.links, hub.prefix = 2, links, prefix
    ended = await program.check_size(URI, HF_ENDPOINT=f"{hub.url}{prefix}", AIM_DOWNLOAD_FILTER=EVERYTHING)
    assert ended.termination == {"url": URI, "sizeBytes": sum(map(len, hub.files.values()))}, ended.err


@pytest.mark.spec("AR-815", "AR-808")
async def test_tokens_of_xet_are_asked_for_at_the_endpoint(program: Program, hub: FakeHub, elsewhere: FakeHub) -> None:
    hub.xet, hub.links = True, elsewhere.url
    ended = await program.download(
        URI, HF_ENDPOINT=hub.url, HF_TOKEN=TOKEN, AIM_DOWNLOADER_PROTOCOL="XET,HTTP", AIM_DOWNLOAD_FILTER=EVERYTHING
    )
    assert ended.code == 0, ended.err
    assert elsewhere.tokens == set()
    assert f"Bearer {TOKEN}" in {token for path, token in hub.tokens if "xet-read-token" in path}


@pytest.mark.spec("AR-817")
@pytest.mark.parametrize(
    ("url", "variables", "said"),
    [
        ("http://127.0.0.1:1/file", {}, "127.0.0.1:1 cannot be reached: "),
        (
            "http://hub.invalid/file",
            {"HTTP_PROXY": "http://user:canary@127.0.0.1:1", "NO_PROXY": "10.0.0.0/8"},
            "hub.invalid cannot be reached through the proxy 127.0.0.1:1: ",
        ),
    ],
)
def test_an_error_names_the_host_that_did_not_answer(url: str, variables: dict[str, str], said: str) -> None:
    transport = EndpointTransport("http://other.invalid", variables)
    with Client(transport=transport) as client, pytest.raises(ConnectError) as failed:
        client.get(url)
    assert str(failed.value).startswith(said)
    assert "canary" not in str(failed.value)


@pytest.mark.spec("AR-808", "AR-816")
@pytest.mark.parametrize(
    ("endpoint", "url", "goes"),
    [
        ("https://hub.corp", "https://hub.corp/x", True),
        ("https://hub.corp/mirror", "https://HUB.corp:443/y", True),
        ("http://hub.corp", "https://hub.corp/x", True),
        ("https://hub.corp", "http://hub.corp/x", False),
        ("http://hub.corp:8080", "https://hub.corp/x", False),
        ("https://hub.corp", "https://hub.corp:8443/x", False),
        ("https://hub.corp", "https://cdn.hub.corp/x", False),
        ("https://mirror.corp", "https://huggingface.co/x", False),
        ("https://hub.corp", "https://hub.corp@evil.example/x", False),
        ("https://hub.corp", "https://hub.corp.evil.example/x", False),
    ],
)
def test_only_the_endpoint_gets_credentials(endpoint: str, url: str, goes: bool) -> None:
    assert may_have_credentials(endpoint, url) is goes


@pytest.mark.spec("AR-815")
@pytest.mark.parametrize(
    ("endpoint", "link", "asked"),
    [
        ("https://hub", "https://hub/api/x?a=1&cursor=b%3D", "https://hub/api/x?a=1&cursor=b%3D"),
        ("http://hub:81/m", "https://huggingface.co/api/x?c=1#f", "http://hub:81/m/api/x?c=1"),
        ("http://hub:81/m/", "http://hub:81/m/api/x", "http://hub:81/m/api/x"),
        ("http://hub/m", "http://hub/model/x", "http://hub/m/model/x"),
        ("http://hub", "http://user:word@evil//evil.example/x", "http://hub/evil.example/x"),
    ],
)
def test_a_link_becomes_a_request_to_the_endpoint(endpoint: str, link: str, asked: str) -> None:
    assert at_endpoint(endpoint, link) == asked
