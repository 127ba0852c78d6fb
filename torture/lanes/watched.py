"""Lanes and settlers whose steps a watch is told of."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from checkback.kafka.librdkafka.lanes import Lane, LanePlace, LaneRecord
from checkback.kafka.librdkafka.settling import Settler
from checkback.producing.direct import direct
from checkback.producing.direct.delivering import Delivering
from checkback.wire.ledger import Ledger
from checkers.clients import KafkaClients
from conf import Settings
from torture.effects.strike import Watch
from torture.lanes.steps import LaneStep, SettlingStep

_FLUSH_SECONDS = 1.0


def watch_lanes(watch: Watch) -> None:
    """Have the lanes that this process opens from now on watched."""

    def make(place: LanePlace) -> _WatchedLane:
        return _WatchedLane(Lane(place), watch)

    deliver, settle = Delivering._deliver, Delivering._settle  # noqa: SLF001  (the steps lie between what these call)

    def delivered(self: Delivering, taken: Sequence[Any]) -> None:
        deliver(self, taken)
        if taken:
            watch(LaneStep.OPS_SENT)

    def settled(self: Delivering, *lane: Any) -> None:
        watch(LaneStep.SETTLING_ITSELF)
        settle(self, *lane)

    of_module, of_class = cast("Any", direct), cast("Any", Delivering)
    of_module.Lane = make
    of_class._deliver, of_class._settle = delivered, settled  # noqa: SLF001  (see above)


class _WatchedLane:
    """All that is not here is the lane's own."""

    def __init__(self, lane: Any, watch: Watch) -> None:
        self._lane = lane
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lane, name)

    def open(self) -> None:
        lane = self._lane
        lane.open()
        # the steps lie within deliver(): a step of its transaction is a call of its client's
        lane._kafka = _WatchedKafka(lane._kafka, self._watch)  # noqa: SLF001  (see above)

    def deliver(self, records: Sequence[LaneRecord], ledger: Ledger) -> None:
        self._watch(LaneStep.BEFORE)
        self._lane.deliver(records, ledger)
        self._watch(LaneStep.COMMITTED)


class _WatchedKafka:
    """All that is not here is the client's own."""

    def __init__(self, kafka: Any, watch: Watch) -> None:
        self._kafka = kafka
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kafka, name)

    def add_offsets(self, *arguments: Any) -> None:
        self._kafka.flush(_FLUSH_SECONDS)  # so that all partitions have some of it when it is struck
        self._watch(LaneStep.MESSAGES_WRITTEN)
        self._kafka.add_offsets(*arguments)
        self._watch(LaneStep.LEDGER_ADDED)

    def commit(self, seconds: float) -> None:
        self._watch.under_way(LaneStep.COMMIT_UNDER_WAY)
        self._kafka.commit(seconds)


class WatchedClients(KafkaClients):
    """Of a check service, which settles with a watch that is told of each step."""

    def __init__(self, settings: Settings, watch: Watch) -> None:
        super().__init__(settings)
        connect = self._connect_settler
        self._connect_settler = partial(_watched, connect, watch)


def _watched(connect: Callable[[], Settler], watch: Watch) -> Settler:
    settler: Any = connect()
    fence, settle = settler._fence, settler.settle  # noqa: SLF001  (a step of its own)

    def fenced(name: str) -> None:
        watch(SettlingStep.FENCING)
        fence(name)
        watch(SettlingStep.FENCED)

    def settled(group: str, lane: str) -> Ledger | None:
        ledger: Ledger | None = settle(group, lane)
        watch(SettlingStep.LEDGER_READ)
        return ledger

    settler._fence, settler.settle = fenced, settled  # noqa: SLF001  (see above)
    return settler  # type: ignore[no-any-return]  # it is what it was, watched
