"""How long clients pause before they try an absent Kafka again."""

import pytest

from checkback.kafka.reaching import RECONNECT_MS, longest_pause_ms


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, RECONNECT_MS),
        ({"reconnect.backoff.ms": 10}, RECONNECT_MS),
        ({"reconnect.backoff.ms": 2_500}, 2_500),
        ({"reconnect.backoff.ms": "2500"}, 2_500),
        ({"reconnect.backoff.ms": "soon"}, RECONNECT_MS),
    ],
)
def test_the_longest_pause_is_never_below_a_users_shortest(options: dict[str, object], expected: int) -> None:
    """Who sets the one does not think of the other, and librdkafka refuses the two together."""
    assert longest_pause_ms(options, "reconnect.backoff.ms") == expected
