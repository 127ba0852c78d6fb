"""The shop's neighbours: what they send, and an endpoint that hangs."""

import random
import socket
import time
from urllib.parse import urlsplit

import pytest

from torture.neighbours import HangingServer, burst
from torture.shop import MOST_LARGE_BYTES, Fate, large_sizes


@pytest.mark.parametrize("seed", range(20))
def test_a_burst_has_thousands_of_every_fate_some_large_a_quarter_left_to_the_check(seed: int) -> None:
    halves = burst(random.Random(seed))
    assert 1_000 <= len(halves) <= 3_000
    assert {fate for _, fate in halves} == set(Fate)
    assert 3 <= sum(large for large, _ in halves) <= 12
    left = sum(fate in {Fate.NEITHER, Fate.COMMITTED_WITHOUT_OP} for _, fate in halves)
    assert 0.2 < left / len(halves) < 0.3


@pytest.mark.parametrize("messages", [1, 3])
def test_a_large_half_fits_into_a_record_of_kafka(messages: int) -> None:
    halves = [large_sizes(random.Random(seed), messages) for seed in range(200)]
    assert {len(sizes) for sizes in halves} == {messages}
    as_written = [sum(sizes) if messages == 1 else sum(4 * (size // 3 + 1) for size in sizes) for sizes in halves]
    assert min(as_written) >= 100_000
    assert 800_000 < max(as_written) <= MOST_LARGE_BYTES + 100


def test_the_server_that_hangs_takes_all_and_says_nothing() -> None:
    with HangingServer() as server:
        place = urlsplit(server.url)
        for _ in range(3):
            with socket.create_connection((str(place.hostname), int(place.port or 0)), timeout=2) as asking:
                asking.sendall(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
                asking.settimeout(0.1)
                with pytest.raises(TimeoutError):
                    asking.recv(1)
    ended = time.monotonic()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((str(place.hostname), int(place.port or 0)), timeout=2)
    assert time.monotonic() - ended < 1
