"""Which ports a part of the platform is told to listen on before it starts."""

from itertools import islice

from aim_local.ports import candidates


def test_a_port_is_chosen_where_the_system_gives_none_away_and_not_soon_again() -> None:
    ports = list(islice(candidates(32_768, 0.5), 30_000))
    assert max(ports) < 32_768
    assert min(ports) > 10_000
    assert len(set(ports[:20_000])) == 20_000
    assert ports[0] != next(candidates(32_768, 0.25)), "another process begins elsewhere"


def test_where_all_ports_are_ephemeral_none_is_left_to_choose() -> None:
    assert list(candidates(1024, 0.5)) == []
    assert list(candidates(12_500, 0.5)) == []
