"""Lanes are settled before an operator decides about their half messages: what they have done is known then.

A half message that names a lane may have been delivered by its producer: ``docs/decisions/0029-the-direct-lane.md``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from checkback.kafka.kafka_python.library import KafkaError, TopicPartition
from checkback.kafka.librdkafka.settling import Settler
from checkback.kafka.reaching import no_kafka
from checkback.kafka.record_ranges import RangeReader, ReadLimits, Stretch
from checkback.kafka.topic_reading import ends_of, reading_consumer
from checkback.operations.operator_ops import Row
from checkback.wire import protocol
from checkback.wire.lanes import LaneFact, is_lane
from checkback.wire.ledger import Ledger
from checkback.wire.own_headers import own_headers
from checkback.wire.protocol import Action, HalfPosition, Topics

_ALL = ReadLimits(1 << 62, float("inf"))
_NEAR = 200
"""Half messages so close to each other are read in one go: what lies between costs less than going there."""
NO_LEDGER = "its lane has no ledger any more"
CONTESTED = "it is contested"


class Wish(NamedTuple):
    """A half message that an operator wants to decide about."""

    row: Row
    contested: bool = False
    """Parked since nobody but who looks at its real topic can know whether it was delivered."""


class LaneFinding(NamedTuple):
    """What is known of a half message that names a lane."""

    lane: str
    fact: LaneFact | None
    """None: nobody can know."""
    why: str = ""
    """Why nobody can."""


class OperatorWrite(NamedTuple):
    """Ops that say the same of several half messages."""

    action: Action
    fact: LaneFact | None
    rows: list[Row]


class LanesSettled(NamedTuple):
    """What may be written of what an operator wants."""

    writes: tuple[OperatorWrite, ...]
    delivered: tuple[Row, ...] = ()
    """Of these *commit* is written, which was not asked for: their lanes have delivered them."""
    unknown: tuple[tuple[Row, str], ...] = ()
    """Of these nothing is written, and why nobody can know: who looks at the real topic may say which it was."""


Findings = Mapping[HalfPosition, LaneFinding]
"""Of those half messages that name a lane."""
Look = Callable[[Sequence[Wish]], Findings]


def no_lanes(_: Sequence[Wish]) -> Findings:
    """A :data:`Look` where there are none."""
    return {}


def settled(action: Action, wishes: Sequence[Wish], look: Look, told: LaneFact | None = None) -> LanesSettled:
    """What may be written of these half messages.

    ``told``: what the operator has seen in the real topics, for those of which nobody else can know.

    Raises:
        KafkaUnreachableError: a lane cannot be settled now. ConfigurationError: Kafka does not allow it.
    """
    if action is Action.REDELIVER:  # committed already, and not by a lane
        return LanesSettled((OperatorWrite(action, None, [wish.row for wish in wishes]),))
    found = look(wishes)
    writes: dict[tuple[Action, LaneFact | None], list[Row]] = {}
    delivered, unknown = [], []
    for wish in wishes:
        _, _, half = wish.row
        finding = found.get(half)
        fact = None if finding is None else finding.fact or _told(action, finding, told)
        if finding is not None and fact is None:
            unknown.append((wish.row, finding.why))
            continue
        says = Action.COMMIT if fact is LaneFact.DELIVERED else action
        if says is not action:
            delivered.append(wish.row)
        writes.setdefault((says, fact), []).append(wish.row)
    made = tuple(OperatorWrite(*said, rows) for said, rows in writes.items())
    return LanesSettled(made, tuple(delivered), tuple(unknown))


def _told(action: Action, finding: LaneFinding, told: LaneFact | None) -> LaneFact | None:
    """A contested half message is not checked again: no check could find out more."""
    return None if action is Action.RESUME and finding.why == CONTESTED else told


class KafkaLanes:
    """A :data:`Look`: reads the half messages, and has the lanes that they name settled.

    ``reading`` are options of kafka-python, ``settling`` of librdkafka.
    """

    def __init__(
        self, bootstrap_servers: str, topics: Topics, reading: Mapping[str, Any], settling: Mapping[str, Any]
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._topics = topics
        self._reading = reading
        self._settling = settling

    def __call__(self, wishes: Sequence[Wish]) -> Findings:
        """Fences the lanes' producers.

        Raises:
            KafkaUnreachableError: Kafka does not answer.
            ConfigurationError: it does not allow it.
        """
        try:
            with closing(reading_consumer(self._bootstrap_servers, options=self._reading)) as consumer:
                named = lanes_of(consumer, self._topics, (wish.row[2] for wish in wishes))
        except KafkaError as error:
            raise no_kafka(self._bootstrap_servers, error, "kafka.bootstrap_servers") from error
        if not named:
            return {}
        contested = {wish.row[2] for wish in wishes if wish.contested}
        settler = Settler(self._bootstrap_servers, self._topics, self._settling)
        return findings(settler.settle, named, contested)


def findings(
    settle: Callable[[str, str], Ledger | None],
    named: Mapping[HalfPosition, tuple[str, str]],
    contested: Iterable[HalfPosition] = (),
) -> Findings:
    """What lanes have done with half messages that name them, each settled once; ``named``: group and lane.

    Raises as :meth:`Settler.settle`.
    """
    unclear = set(contested)
    ledgers: dict[tuple[str, str], Ledger | None] = {}
    found = {}
    for half, lane in named.items():
        if lane not in ledgers:
            ledgers[lane] = settle(*lane)
        ledger, (_, name) = ledgers[lane], lane
        if ledger is None:
            found[half] = LaneFinding(name, None, NO_LEDGER)
        elif half in ledger:
            found[half] = LaneFinding(name, LaneFact.DELIVERED)
        elif half in unclear:  # the op that says so may be one of those that were not kept
            found[half] = LaneFinding(name, None, CONTESTED)
        else:
            found[half] = LaneFinding(name, LaneFact.SETTLED)
    return found


def lanes_of(consumer: Any, topics: Topics, halves: Iterable[HalfPosition]) -> dict[HalfPosition, tuple[str, str]]:
    """Group and lane of those half messages that name a lane, as they lie in ``cb.half``.

    One that is gone from there names none as far as anybody can see: the job takes no verdict of one that does.

    Raises:
        KafkaError: Kafka does not answer.
    """
    wanted, found = set(halves), dict[HalfPosition, tuple[str, str]]()

    def look(record: Any) -> bool:
        half, headers = HalfPosition(record.partition, record.offset), own_headers(record.headers)
        lane = headers.get(protocol.LANE, b"").decode(errors="replace")
        if half in wanted and is_lane(lane):
            found[half] = headers.get(protocol.GROUP, b"").decode(errors="replace"), lane
        return False  # the records themselves are not kept

    ends = ends_of(consumer, topics.half)
    first = consumer.beginning_offsets([TopicPartition(topics.half, number) for number in ends])
    plan: dict[TopicPartition, list[Stretch]] = {}
    for half in sorted(wanted):
        place = TopicPartition(topics.half, half.partition)
        if not first.get(place, 0) <= half.offset < ends.get(half.partition, 0):
            continue
        stretches = plan.setdefault(place, [])
        if stretches and half.offset - stretches[-1][1] <= _NEAR:
            stretches[-1] = stretches[-1][0], half.offset + 1
        else:
            stretches.append((half.offset, half.offset + 1))
    RangeReader(consumer, _ALL).read_stretches(plan, look)
    return found
