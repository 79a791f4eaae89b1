"""What hosts answer is repeated without the credentials that they were sent."""

import base64

import pytest

from aim_artifacts.downloader.failure import hidden
from oci_registry.credentials import Credential


@pytest.mark.spec("FW-596")
@pytest.mark.parametrize(
    "credential",
    [Credential("reader", "pass-word"), Credential(identity_token="pass-word"), Credential(registry_token="pass-word")],
)
def test_a_registry_is_quoted_without_what_it_was_sent(credential: Credential) -> None:
    pair = base64.b64encode(b"reader:pass-word").decode()
    said = credential.hidden(f"DENIED pass-word Bearer of-realm {pair}", "Bearer of-realm")
    assert said.startswith("DENIED *** Bearer ***")
    assert "pass-word" not in said
    assert credential.hidden("denied") == "denied"
    assert Credential().hidden("denied for of-realm", "Bearer of-realm") == "denied for ***"


@pytest.mark.spec("FW-596", "AR-352")
def test_the_downloader_tells_no_value_of_a_credential() -> None:
    variables = {
        "HF_TOKEN": "of-no-form",
        "AWS_SECRET_ACCESS_KEY": "of-no-form-2",
        "MY_PASSWORD": "abc",
        "PATH": "/bin",
    }
    assert hidden("of-no-form-2, of-no-form; hf_abcdef in /bin, abc", variables) == "***, ***; *** in /bin, abc"
