"""What leaves the installation holds no credential, and compares as before."""

import json
from typing import Any

import pytest

from aim_cli.log.exporting import Cover

WORD = "correct-horse-battery"
APPLIED = json.dumps({"spec": {"env": [{"name": "DB_PASSWORD", "value": WORD}]}})


@pytest.mark.spec("FW-621")
@pytest.mark.parametrize(
    "value",
    [
        {"env": [{"name": "S3_SECRET_ACCESS_KEY", "value": WORD}]},
        {"args": ["--api-key", WORD]},
        {"args": [f"--hf-token={WORD}"]},
        {"command": f"serve --password {WORD} --port 8000"},
        {"registry": {"password": WORD}},
        {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": APPLIED}},
        {"message": f"GET https://someone:{WORD}@registry.example/v2: 401"},
        {"message": f"Authorization: Basic {WORD}"},
    ],
)
def test_a_credential_is_covered_wherever_it_may_stand(value: Any) -> None:
    assert WORD not in json.dumps(Cover([value]).over(value))


@pytest.mark.spec("FW-621")
def test_known_once_it_is_covered_alike_everywhere_else() -> None:
    given = {"name": "API_KEY", "value": WORD}
    said = {"message": f"the server refused {WORD}", WORD: 1, "plan": [{"name": "API_KEY", "value": WORD}]}
    cover = Cover([given, said])
    covered = cover.over(said)
    assert covered == {"message": "the server refused ***1", "***1": 1, "plan": [cover.over(given)]}


@pytest.mark.spec("FW-621")
def test_a_short_one_is_covered_where_it_is_one_and_stands_elsewhere() -> None:
    value = {"env": [{"name": "WEBUI_AUTH", "value": "on"}], "args": ["--token", "on"], "mode": "on"}
    assert Cover([value]).over(value) == {
        "env": [{"name": "WEBUI_AUTH", "value": "***1"}],
        "args": ["--token", "***1"],
        "mode": "on",
    }


@pytest.mark.spec("FW-621")
@pytest.mark.parametrize(
    "value",
    [
        {"env": [{"name": "TOKENIZERS_PARALLELISM", "value": "false"}]},
        {"env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}]},
        {"args": ["--max-tokens", "4096", "--port", "8000"]},
        {"imagePullSecrets": [{"name": "pull"}], "tokenizer": "fast"},
        {"text": "{not json", "number": 3, "none": None, "nested": [[], {}]},
    ],
)
def test_what_is_no_credential_stays(value: Any) -> None:
    cover = Cover([value])
    assert cover.over(value) == value
    assert not cover.known
