"""Copies are looked for on behalf of any number of groups: they share what is read, and each gets its answer."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from checkback.wire.protocol import Action, HalfPosition
from checkers import copies, signature_index
from checkers.ask import EndpointVerdict
from checkers.copies import COPY, Copies
from tests.checkers.asking import at_once
from tests.checkers.service.scene import request
from tests.checkers.test_signature_index import NOW_MS, FakeReader, record

GROUPS = 12
POLL, POLL_SECONDS = 10, 0.1
TURN = 200
"""Records that are read in a turn of two seconds."""
LONG = 5 * TURN


class TimedReader(FakeReader):
    """Each poll takes its time, by a clock that nothing else moves."""

    now = 0.0

    def one(self, offset: int, until: float) -> Any | None:
        if TimedReader.now >= until:
            raise TimeoutError("too late")
        return super().one(offset, until)

    def read(self, start: int, stop: int, until: float) -> Iterator[tuple[Sequence[Any], int]]:
        for piece in super().read(start, stop, until):
            if TimedReader.now >= until:
                return
            TimedReader.now += POLL_SECONDS
            yield piece


def judged(
    readers: dict[int, TimedReader], asked: dict[str, HalfPosition], monkeypatch: pytest.MonkeyPatch
) -> dict[str, EndpointVerdict]:
    monkeypatch.setattr(copies, "topic_id", lambda *_: "the same")
    monkeypatch.setattr(copies, "PartitionReader", lambda _, place: readers[place.partition])
    monkeypatch.setattr(copies, "monotonic", lambda: TimedReader.now)

    async def judge() -> dict[str, EndpointVerdict]:
        verdicts: dict[str, EndpointVerdict] = {}
        looking = Copies("cb.half", lambda _: True, object, at_once)
        for group, half in asked.items():
            about = request(group=group, half=half)
            looking.settle(about, EndpointVerdict(Action.COMMIT, ""), partial_put(verdicts, group))
        while len(verdicts) < len(asked):  # noqa: ASYNC110  (it is a condition with the test's own time limit)
            await asyncio.sleep(0)
        return verdicts

    return asyncio.run(judge())


def partial_put(verdicts: dict[str, EndpointVerdict], group: str) -> Any:
    return lambda verdict: verdicts.__setitem__(group, verdict)


def test_one_pass_over_a_partition_serves_all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their windows differ, and the group with the latest one is first."""
    written = [record(number, number, NOW_MS + 20 * number) for number in range(LONG)]
    copied = record(LONG, 17, NOW_MS + 20 * 17, NOW_MS + 20 * LONG)
    reader = TimedReader([*written, copied], piece=POLL)
    asked = {f"shop-{number}": HalfPosition(0, LONG - 20 * number) for number in range(GROUPS)}
    verdicts = judged({0: reader}, asked, monkeypatch)
    assert verdicts.pop("shop-0").remark == COPY
    assert {verdict.action for verdict in verdicts.values()} == {Action.COMMIT}
    assert reader.read_of <= LONG + GROUPS * POLL, "no record is read twice"


def test_groups_with_nothing_in_common_are_served_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when no more is kept than one of them needs."""
    monkeypatch.setattr(signature_index, "MOST_KEPT", LONG)
    readers, asked = {}, {}
    for number in range(GROUPS):
        readers[number] = TimedReader([record(at, at, NOW_MS) for at in range(LONG + 1)], piece=POLL)
        asked[f"shop-{number}"] = HalfPosition(number, LONG)
    verdicts = judged(readers, asked, monkeypatch)
    assert {verdict.action for verdict in verdicts.values()} == {Action.COMMIT}
    assert sum(reader.read_of for reader in readers.values()) <= GROUPS * (LONG + TURN)
