"""A half message that the job would reject for its signature's age is refused before the local transaction runs."""

from time import time_ns

import pytest

from checkback import Message, TransactionProducer
from checkback.exceptions import HalfMessageError
from checkback.kafka import signing
from checkback.kafka.connecting import TransportName
from checkback.wire.signed_records import WINDOW_MS, SigningKey
from tests.place import Place

KEY = SigningKey("shop-1", "s" * 32)
MESSAGE = Message("orders", b"1")


@pytest.mark.parametrize("transport", TransportName)
def test_a_clock_too_far_from_kafkas_runs_no_local_transaction(
    place: Place, monkeypatch: pytest.MonkeyPatch, transport: TransportName
) -> None:
    """One that is a little off is taken."""
    ran: list[int] = []
    with TransactionProducer(
        place.bootstrap_servers, "shop", topics=place.topics, transport=transport, signing=KEY
    ) as producer:

        def transact(off_ms: int) -> None:
            monkeypatch.setattr(signing, "time_ns", lambda: time_ns() + off_ms * 1_000_000)
            with producer.transaction(MESSAGE):
                ran.append(off_ms)

        transact(0)
        transact(WINDOW_MS - 30_000)
        for off_ms, said in ((WINDOW_MS + 30_000, "behind"), (-WINDOW_MS - 30_000, "ahead of")):
            with pytest.raises(HalfMessageError, match=rf"Kafka's clock is 3\d\d s {said} this machine's"):
                transact(off_ms)
    assert ran == [0, WINDOW_MS - 30_000]
