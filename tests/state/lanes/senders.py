"""Senders that renew themselves: a consumer that sends messages back, and the forwarder of ``cb.later``.

One process reads inputs in their order. In one transaction it writes a record of an input and commits the offset behind
it; inputs that it does not send it only commits, in no transaction. A producer that is in doubt fences itself under the
same transactional id and goes on from the committed offset, as does the process after a crash.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from tests.state.lanes.kafka import NONE, Answer, Call, Halves, Kafka, Request, answers, handle, init, of_kafka

_WHO = "owner"
_CALLS = (Request.ADD_PARTITIONS, Request.PRODUCE, Request.ADD_OFFSETS, Request.COMMIT_OFFSETS, Request.COMMIT)
"""A transaction, in order: both senders wait for records before they add offsets."""
_PRODUCE_AT = 1


class Renewal(Enum):
    """When a producer fences itself after a connection has failed, and Kafka answered the end all the same."""

    AT_ONCE = auto()
    BEFORE_THE_NEXT_TRANSACTION = auto()
    NEVER = auto()


@dataclass(frozen=True)
class SenderSetting:
    """What a sender does, and what may happen to it."""

    sends: tuple[bool, ...] = (True, True)
    """Of each input whether its record is sent; others are handled without."""
    late: frozenset[Request] = frozenset(Request)
    resets: int = 1
    renewal: Renewal = Renewal.AT_ONCE

    def begin(self) -> "SenderWorld":
        return SenderWorld(Kafka(visible=(0,) * len(self.sends), resets=self.resets))


class SenderWorld(NamedTuple):
    """The sender's transactional id, and the sender."""

    kafka: Kafka
    doubt: str = ""
    """What a sender in doubt does next: ``fence`` or ``read``."""
    at: int = 0
    """The number of the transaction's next request."""
    input: int = 0
    """The input that is next, or under way."""
    reset: bool = False
    """Whether a connection has failed since the transaction began, or since the producer should have renewed itself."""
    most: int = 0
    """The highest offset that was ever committed."""


SenderStep = tuple[str, SenderWorld]


def of_sender(setting: SenderSetting) -> Callable[[SenderWorld], Iterator[SenderStep]]:
    """All that may happen next."""

    def steps(world: SenderWorld) -> Iterator[SenderStep]:
        for name, kafka in of_kafka(world.kafka, expires=False, late=setting.late):
            yield name, world._replace(kafka=kafka)
        for name, after in _steps(world, setting):
            yield name, after._replace(most=max(after.most, _offset(after.kafka)))

    return steps


def _steps(world: SenderWorld, setting: SenderSetting) -> Iterator[SenderStep]:
    yield "crash", _in_doubt(world)
    kafka = world.kafka
    if world.doubt == "fence":
        if (fenced := init(kafka, _WHO)) is not None:
            yield "fence", world._replace(kafka=fenced, doubt="read")
    elif world.doubt == "read":
        if kafka.pending_ledger is None:
            yield "read the offset", world._replace(doubt="", input=_offset(kafka))
    elif world.input < len(setting.sends):
        yield from _handles(world, setting, sends=setting.sends[world.input])


def _handles(world: SenderWorld, setting: SenderSetting, *, sends: bool) -> Iterator[SenderStep]:
    due = world.at == 0 and world.reset and setting.renewal != Renewal.NEVER
    if due and (fenced := init(world.kafka, _WHO)) is not None:
        yield "renew", world._replace(kafka=fenced, reset=False)
    if not due and sends:
        yield from _transacts(world, setting)
    if not sends and not (due and setting.renewal == Renewal.AT_ONCE):
        yield from _commits_offset(world)


def _in_doubt(world: SenderWorld) -> SenderWorld:
    return world._replace(doubt="fence", at=0, reset=False)


def _commits_offset(world: SenderWorld) -> Iterator[SenderStep]:
    """OffsetCommit; no sender does it while an offset of a transaction is on its way."""
    if world.kafka.pending_ledger is None:
        kafka = world.kafka._replace(ledger=_behind(world.input))
        yield f"offset behind {world.input} committed", world._replace(kafka=kafka, input=world.input + 1)


def _transacts(world: SenderWorld, setting: SenderSetting) -> Iterator[SenderStep]:
    request = _CALLS[world.at]
    content = {Request.COMMIT_OFFSETS: _behind(world.input), Request.COMMIT: NONE, Request.ADD_OFFSETS: NONE}
    yield from _requests(world, setting, Call(request, content.get(request, frozenset({world.input}))))
    if world.at == _PRODUCE_AT:  # Kafka refuses the record; it goes again, as a dead letter
        yield from _requests(world, setting, Call(Request.ABORT))
    if request == Request.COMMIT and (after := handle(world.kafka, _WHO, Call(request))) is not None:
        yield "commit that is not answered", _in_doubt(world._replace(kafka=after))


def _requests(world: SenderWorld, setting: SenderSetting, call: Call) -> Iterator[SenderStep]:
    for name, kafka, answer in answers(world.kafka, _WHO, call, setting.late):
        after = world._replace(kafka=kafka, reset=world.reset or answer == Answer.DONE_AFTER_A_RESET)
        if answer == Answer.FAILED:
            yield name, _in_doubt(after)
        elif call.request in {Request.COMMIT, Request.ABORT}:
            yield name, after._replace(at=0, input=world.input + (call.request == Request.COMMIT))
        else:
            yield name, after._replace(at=world.at + 1)


def violations(setting: SenderSetting) -> Callable[[SenderWorld], Iterable[str]]:
    """Records and offsets are committed together, each record once, and no offset goes back."""
    sent = frozenset(at for at, sends in enumerate(setting.sends) if sends)

    def wrong(world: SenderWorld) -> Iterator[str]:
        kafka, offset = world.kafka, _offset(world.kafka)
        if offset < world.most:
            yield f"the offset has gone back from {world.most} to {offset}"
        for half in kafka.committed - _behind(offset - 1):
            yield f"{half} is sent, and its offset is not committed"
        for half in (_behind(offset - 1) & sent) - kafka.committed:
            yield f"{half} is lost"
        for half, count in enumerate(kafka.visible):
            if count > 1:
                yield f"{half} is repeated"

    return wrong


def _behind(last: int) -> Halves:
    """Inputs up to this one: what a committed offset stands for."""
    return frozenset(range(last + 1))


def _offset(kafka: Kafka) -> int:
    """The committed offset, as soon as its transaction has ended."""
    return len((kafka.ledger if kafka.pending_ledger is None else kafka.pending_ledger) or NONE)
