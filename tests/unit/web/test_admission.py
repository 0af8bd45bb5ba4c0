"""Who gives way where connections are more than there is room for."""

from __future__ import annotations

import pytest

from exporter.web.server import ConnectionLimiter, room


def test_busiest_peers_oldest_silent_connection_gives_way() -> None:
    ended: list[int] = []
    admission = ConnectionLimiter(3)
    for key, peer in enumerate(("z", "b", "z")):
        assert admission.admit(key, peer, lambda key=key: ended.append(key))
    assert admission.admit(3, "c", lambda: ended.append(3))
    admission.served(1)
    assert admission.admit(4, "c", lambda: ended.append(4))

    assert ended == [0, 2]
    assert len(admission) == 3


def test_no_room_where_all_are_being_served() -> None:
    admission = ConnectionLimiter(1)
    admission.admit(0, "a", lambda: None)
    admission.served(0)

    assert not admission.admit(1, "b", lambda: None)
    admission.left(0)
    assert admission.admit(1, "b", lambda: None)


@pytest.mark.parametrize(("limit", "expected"), [(20, 4), (256, 104), (1024, 256), (1 << 20, 256)])
def test_room_follows_the_descriptors_of_the_process(limit: int, expected: int) -> None:
    assert room(limit) == expected
    assert room(limit, tls=True) == min(expected, 64)


def test_peers_that_have_left_are_forgotten() -> None:
    """Or every address that ever asked would be kept."""
    admission = ConnectionLimiter(4)
    for key, peer in enumerate(("a", "a", "b")):
        admission.admit(key, peer, lambda: None)
    admission.served(0)
    admission.left(1)
    assert set(admission._peers) == {"a", "b"}

    admission.left(0)
    admission.left(2)

    assert (len(admission), admission._peers) == (0, {})
