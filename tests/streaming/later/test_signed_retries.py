"""What the forwarder signs is judged by Kafka's clock, so it is signed by that."""

from dataclasses import replace
from pathlib import Path
from time import time_ns

import pytest

from checkback.wire.protocol import SIGNATURE
from checkback.wire.signed_records import WINDOW_MS, WrittenSignature
from conf import Settings
from streaming.later.forwarding import Forwarder
from tests.place import Place, signing_access, wait_until
from tests.streaming.later.scene import Remembering, halves, no_other, now_ms, settings, write


@pytest.mark.parametrize("off_ms", [-Settings().job.clock_tolerance, Settings().job.clock_tolerance])
def test_a_retry_is_signed_by_kafkas_clock(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off_ms: int
) -> None:
    monkeypatch.setattr("streaming.later.forwarding.time_ns", lambda: time_ns() + off_ms * 1_000_000)
    signing = replace(settings(place), access=signing_access(tmp_path))
    forwarder = Forwarder(signing, Remembering(), no_other, now_ms)
    forwarder.start()
    write(place, b"one")
    wait_until(lambda: len(halves(place)) == 1)
    forwarder.stop()
    forwarder.raise_if_dead()
    (record,) = place.read(place.topics.half)
    signature = WrittenSignature.parse(dict(record.headers)[SIGNATURE])
    assert signature is not None
    assert abs(record.timestamp - signature.time_ms) < WINDOW_MS
