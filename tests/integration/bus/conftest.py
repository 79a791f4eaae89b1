"""Every test of this folder may use a broker."""

from collections.abc import Sequence

import pytest
from support.nats import bus, layout, nats_server

from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.broker.consumer import LastLogged, read_logged
from controller_runtime.log.wire.subjects import Layout

__all__ = ["bus", "layout", "nats_server"]


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """The subjects of every reading of the history that asked for any."""
    found: list[Sequence[str]] = []

    async def read_and_note(bus: BusConnection, layout: Layout, subjects: Sequence[str], take: LastLogged) -> None:
        if subjects:
            found.append(subjects)
        await read_logged(bus, layout, subjects, take)

    monkeypatch.setattr("controller_runtime.log.publish.session.read_logged", read_and_note)
    return found
