"""Which answers are kept to be confirmed later, and for how long."""

import pytest
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from oci_registry.transport import AnswerMemory, Key


def address(number: int) -> Key:
    return URL(f"https://ghcr.io/v2/team/{number}/tags/list"), "application/json"


def headers(etag: str | None = '"1"') -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict({} if etag is None else {"ETag": etag}))


@pytest.mark.spec("MS-373")
def test_an_answer_is_kept_with_its_tag_and_replaced_by_a_newer_one() -> None:
    memory = AnswerMemory()
    memory.keep(address(1), headers(), b"old")
    memory.keep(address(1), headers('W/"2"'), b"newer")
    kept = memory.find(address(1))
    assert kept is not None
    assert (kept.etag, kept.body) == ('W/"2"', b"newer")
    assert memory.size == kept.size
    assert memory.find((address(1)[0], "text/html")) is None, "another representation"


@pytest.mark.spec("MS-373")
def test_an_answer_without_tag_drives_the_former_one_out() -> None:
    memory = AnswerMemory()
    memory.keep(address(1), headers(), b"old")
    memory.keep(address(1), headers(None), b"newer")
    assert memory.find(address(1)) is None
    assert memory.size == 0


@pytest.mark.spec("MS-373")
def test_the_memory_is_bounded_and_what_is_used_stays() -> None:
    memory = AnswerMemory(capacity=10_000)
    for number in range(100):
        memory.keep(address(number), headers(), b"x" * 1000)
        memory.find(address(0))
    assert memory.size <= 10_000
    kept = [number for number in range(100) if memory.find(address(number))]
    assert kept[0] == 0
    assert kept[-1] == 99
    memory.keep(address(7), headers(), b"x" * 5000)
    assert memory.find(address(7)) is None, "one answer may not take the place of all others"
