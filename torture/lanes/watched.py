"""Lanes and settlers whose steps a watch is told of."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from checkback.kafka.connecting import TransportName
from checkback.kafka.lane_writers import lane_writer
from checkback.kafka.lanes import LanePlace, LaneRecord, LaneWriter
from checkback.kafka.settling import Settler
from checkback.kafka.settling_steps import StepwiseSettler
from checkback.producing.direct import direct
from checkback.producing.direct.delivering import Delivering
from checkback.wire.ledger import Ledger
from checkers import KafkaClients
from conf import Settings
from torture.effects.strike import Watch
from torture.lanes.steps import LaneStep, SettlingStep

_FLUSH_SECONDS = 1.0


def watch_lanes(watch: Watch) -> None:
    """Have the lanes that this process opens from now on watched."""

    def make(name: TransportName | str, place: LanePlace) -> LaneWriter:
        return _WatchedLane(lane_writer(name, place), watch)

    deliver, settle = Delivering._deliver, Delivering._settle  # noqa: SLF001  (the steps lie between what these call)

    def delivered(self: Delivering, taken: Sequence[Any]) -> None:
        deliver(self, taken)
        if taken:
            watch(LaneStep.OPS_SENT)

    def settled(self: Delivering, *lane: Any) -> None:
        watch(LaneStep.SETTLING_ITSELF)
        settle(self, *lane)

    of_module, of_class = cast("Any", direct), cast("Any", Delivering)
    of_module.lane_writer = make
    of_class._deliver, of_class._settle = delivered, settled  # noqa: SLF001  (see above)


class _WatchedLane:
    """All that is not here is the writer's own."""

    def __init__(self, writer: Any, watch: Watch) -> None:
        self._writer = writer
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def open(self) -> None:
        writer = self._writer
        writer.open()
        # the steps lie within deliver(): a step of its transaction is a call of its library's
        if hasattr(writer, "_kafka"):
            writer._kafka = _WatchedKafka(writer._kafka, self._watch)  # noqa: SLF001  (see above)
        else:
            writer._producer = _WatchedProducer(writer._producer, self._watch)  # noqa: SLF001  (see above)

    def deliver(self, records: Sequence[LaneRecord], ledger: Ledger) -> None:
        self._watch(LaneStep.BEFORE)
        self._writer.deliver(records, ledger)
        self._watch(LaneStep.COMMITTED)


class _WatchedKafka:
    """Of confluent-kafka; all that is not here is its own."""

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


class _WatchedProducer:
    """Of kafka-python; all that is not here is its own, to set as well: closing one replaces its ``flush``."""

    def __init__(self, producer: Any, watch: Watch) -> None:
        vars(self).update(_producer=producer, _watch=watch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._producer, name, value)

    def send_offsets_to_transaction(self, *arguments: Any) -> None:
        self._producer.flush(_FLUSH_SECONDS)
        self._watch(LaneStep.MESSAGES_WRITTEN)
        self._producer.send_offsets_to_transaction(*arguments)
        self._watch(LaneStep.LEDGER_ADDED)

    def commit_transaction(self) -> None:
        self._watch.under_way(LaneStep.COMMIT_UNDER_WAY)
        self._producer.commit_transaction()


class WatchedClients(KafkaClients):
    """Of a check service, which settles with a watch that is told of each step."""

    def __init__(self, settings: Settings, watch: Watch) -> None:
        super().__init__(settings)
        connect = self._connect_settler
        self._connect_settler = partial(_watched, connect, watch)


def _watched(connect: Callable[[], Settler], watch: Watch) -> Settler:
    settler = connect()
    stepwise = cast("Any", settler)
    if not isinstance(settler, StepwiseSettler):
        raise TypeError(f"{type(settler).__name__} has no steps that can be watched.")
    fence, settle = stepwise._fence, stepwise.settle  # noqa: SLF001  (a step of its own)

    def fenced(name: str) -> None:
        watch(SettlingStep.FENCING)
        fence(name)
        watch(SettlingStep.FENCED)

    def settled(group: str, lane: str) -> Ledger | None:
        ledger: Ledger | None = settle(group, lane)
        watch(SettlingStep.LEDGER_READ)
        return ledger

    stepwise._fence, stepwise.settle = fenced, settled  # noqa: SLF001  (see above)
    return settler
