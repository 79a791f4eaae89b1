"""What is remembered of registries is bounded, however many hosts the images of a cluster name."""

import pytest

from oci_registry.traffic import HOSTS, OTHERS, Recent, Traffic


@pytest.mark.spec("FW-396")
def test_what_was_used_longest_ago_gives_way() -> None:
    recent: Recent[str, int] = Recent(capacity=3)
    for number, key in enumerate("abc"):
        recent.keep(key, number)
    assert recent.find("a") == 0
    recent.keep("d", 3)
    recent.keep("c", 9)
    assert [recent.find(key) for key in "abcd"] == [0, None, 9, 3]
    recent.forget("a")
    recent.forget("a")
    assert len(recent) == 2


@pytest.mark.spec("MS-351")
def test_hosts_beyond_the_first_thousand_are_counted_together() -> None:
    traffic = Traffic()
    for number in [*range(2 * HOSTS), 0]:
        host = f"r{number}.example.com"
        traffic.count_request(host)
        traffic.repeated(host)
        traffic.limited(host)
        traffic.answered(host, 429)
        traffic.answered(host, None)
    seen = traffic.statistics({})
    for counts in (seen.requests, seen.retries, seen.rate_limited):
        assert len(counts) == HOSTS + 1
        assert counts[OTHERS] == HOSTS
        assert counts["r0.example.com"] == 2
    assert len(seen.answers) == 2 * (HOSTS + 1)
