"""The thread that delivers by a lane: group commits, ops after them, and another lane after an error."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from time import monotonic, sleep
from typing import NamedTuple

from checkback.exceptions import CheckbackError
from checkback.kafka.librdkafka.lanes import Lane, LaneLostError, LaneRefusedError
from checkback.kafka.librdkafka.settling import Settler
from checkback.kafka.outages import Outage
from checkback.kafka.transport import OutgoingRecord, TellingTransport
from checkback.own_lanes import LaneOwner, disown, own
from checkback.producing.direct.book import Book
from checkback.producing.direct.entries import LaneHalf, LaneTopics, Stage
from checkback.producing.ops import OpContent
from checkback.wire.lanes import LaneFact, new_lane
from checkback.wire.ledger import Ledger
from checkback.wire.protocol import Action, HalfPosition

_LOGGER = logging.getLogger(__name__)
_IDLE_SECONDS = 0.5
_WITHOUT_SECONDS = 0.05
_RENEWED_SECONDS = 24 * 3600.0
"""A ledger expires with its group's offsets: 7 days after the last of them, by default."""
_REFUSED_SECONDS, _LONGEST_REFUSED_SECONDS = 60.0, 3600.0
"""From a refusal until another lane takes the place of one that has topics it may not write to any more; twice as long
each time. What is open then goes the job's way."""
_FULL_SECONDS = 0.02
_FULL_TRIES = 5
_FAILED_SECONDS = 1.0


class Links(NamedTuple):
    """What the thread reaches Kafka with."""

    transport: TellingTransport
    lane: Callable[[str], Lane]
    """Makes one, of its name."""
    settler: Callable[[], Settler]
    group: str
    op: Callable[[LaneHalf, OpContent], OutgoingRecord]


@dataclass(eq=False)
class _Lane:
    name: str
    writer: Lane
    topics: LaneTopics
    used: float
    listed: set[HalfPosition] = field(default_factory=set)
    """Delivered, and the op is not acknowledged."""
    until: float = inf
    """When another is to take its place (s, monotonic)."""


class Delivering:
    """Delivers what waits in the book for ``slot``. ``owner`` is told to whoever is asked about a lane's half messages.

    The first slot has a lane at once; the others get theirs a moment later.
    """

    def __init__(self, book: Book, links: Links, owner: LaneOwner, slot: int = 0) -> None:
        self._book = book
        self._slot = slot
        self._links = links
        self._owner = owner
        self._names: list[str] = []
        self._again: deque[tuple[_Lane, LaneHalf]] = deque()
        """Threads share it: the client's own may tell that an op was lost."""
        self._closing = threading.Event()
        self._outage = Outage("a producer's lane", lambda: int(monotonic() * 1000))
        self._recover_at = 0.0
        self._refused_seconds = _REFUSED_SECONDS
        self._doubts: list[tuple[_Lane, Sequence[LaneHalf]]] = []
        """Lanes that were lost, with what was in their last transaction."""
        self._lane: _Lane | None = None if slot else self._opened()
        self._thread = threading.Thread(target=self._run, name=f"checkback-lane-{slot}", daemon=True)
        self._thread.start()

    @property
    def lane(self) -> str:
        """The lane that new half messages name; empty while there is none."""
        lane = self._lane
        return "" if lane is None else lane.name

    def owns(self, lane: str) -> bool:
        """Whether it is, or was, a lane of this producer."""
        return lane in self._names

    def stop(self) -> None:
        """Take nothing more."""
        self._closing.set()

    def close(self, seconds: float) -> None:
        """End within about ``seconds``; the job is told of what waits."""
        self.stop()
        for entry in self._book.close():
            self.leave_to_job(entry)
        self._thread.join(seconds)  # all was delivered, or there was no more time: it opens a lane at the most
        self._resend()
        for name in self._names:
            disown(name)

    def leave_to_job(self, entry: LaneHalf) -> None:
        """Tell the job of a committed one that no lane has delivered, or ever will."""
        self._book.remove(entry)
        verdict = OpContent(Action.COMMIT, entry.remark, LaneFact.SETTLED)
        self._links.transport.write_heard(self._links.op(entry, verdict), partial(_report_lost, entry))

    def _run(self) -> None:
        while not self._closing.is_set():
            lane = self._lane
            taken = self._book.take(_WITHOUT_SECONDS if lane is None else _IDLE_SECONDS, self._slot)
            try:
                self._step(taken)
            except Exception:
                _LOGGER.exception("A lane failed in a way that nobody has thought of: another takes its place")
                self._lose(lane, [one for one in taken if not self._in_doubt(one)])
                self._recover_at = monotonic() + _FAILED_SECONDS
        if self._lane is not None:
            self._lane.writer.close()

    def _step(self, taken: Sequence[LaneHalf]) -> None:
        self._deliver(taken)
        self._links.transport.hear()
        self._resend()
        lane = self._lane
        if lane is None:
            self._recover()
            return
        lane.writer.take_log()
        if lane.writer.spent or monotonic() >= lane.until:
            self._lose(lane, [])
        elif monotonic() - lane.used > _RENEWED_SECONDS:
            self._renew(lane)

    # one group

    def _deliver(self, taken: Sequence[LaneHalf]) -> None:
        """Deliver these in their order; those of another lane than this never were in a transaction, and are not."""
        lane = self._lane
        if lane is not None:
            lane.topics.learn(taken)
        waiting: list[LaneHalf] = []
        for entry in taken:
            if lane is None or entry.lane != lane.name or not lane.topics.fit(entry):
                self.leave_to_job(entry)
            else:
                waiting.append(entry)
        if lane is not None:
            self._pieces(lane, waiting)

    def _pieces(self, lane: _Lane, waiting: list[LaneHalf]) -> None:
        """Deliver these, as many at once as go. When the lane is lost, what was delivered is to be found out."""
        while waiting:
            fitting = self._fitting(lane, waiting)
            piece = waiting[:fitting]
            try:
                self._write(lane, piece)
                waiting = waiting[fitting:]
            except LaneRefusedError as error:
                waiting = self._not_refused(lane, waiting, error)
            except LaneLostError as error:
                _LOGGER.warning("A lane of group %s is given up, and will be settled: %s", self._links.group, error)
                self._lose(lane, waiting)
                return

    def _write(self, lane: _Lane, piece: Sequence[LaneHalf]) -> None:
        if not piece:
            return
        ledger = Ledger({*lane.listed.copy(), *(entry.place for entry in piece)})
        lane.writer.deliver([record for entry in piece for record in entry.records], ledger)
        self._was_delivered(lane, piece)

    def _was_delivered(self, lane: _Lane, piece: Sequence[LaneHalf]) -> None:
        lane.used = monotonic()
        lane.listed.update(entry.place for entry in piece)
        self._book.delivered(piece)
        for entry in piece:
            self._tell(lane, entry)

    def _not_refused(self, lane: _Lane, waiting: list[LaneHalf], error: LaneRefusedError) -> list[LaneHalf]:
        """What goes again; the others are the job's, as are all for the topics that have refused something."""
        records = [record for entry in waiting for record in entry.records]
        topics = {records[number].topic for number in error.numbers}
        _LOGGER.info("Messages for %s go the job's way: %s", ", ".join(sorted(topics)), error)
        lane.topics.refused(topics)
        if lane.until == inf:
            lane.until = monotonic() + self._refused_seconds
            self._refused_seconds = min(2 * self._refused_seconds, _LONGEST_REFUSED_SECONDS)
        fit = [lane.topics.fit(entry) for entry in waiting]
        for entry in [entry for entry, fits in zip(waiting, fit, strict=True) if not fits]:
            self.leave_to_job(entry)
        return [entry for entry, fits in zip(waiting, fit, strict=True) if fits]

    def _fitting(self, lane: _Lane, piece: list[LaneHalf]) -> int:
        """How many of these the ledger takes; those that it does not take, though it may soon, are left to the job."""
        for _ in range(_FULL_TRIES):
            most = len(piece)
            while most:
                if Ledger({*lane.listed.copy(), *(entry.place for entry in piece[:most])}).fits:
                    return most
                most //= 2
            sleep(_FULL_SECONDS)
            self._links.transport.hear()
        self.leave_to_job(piece.pop(0))
        return 0

    def _renew(self, lane: _Lane) -> None:
        try:
            lane.writer.deliver([], Ledger(lane.listed.copy()))
        except CheckbackError as error:
            _LOGGER.warning("A lane of group %s is given up: its ledger is not renewed: %s", self._links.group, error)
            self._lose(lane, [])
        else:
            lane.used = monotonic()

    # ops

    def _tell(self, lane: _Lane, entry: LaneHalf) -> None:
        verdict = OpContent(Action.COMMIT, entry.remark, LaneFact.DELIVERED)
        self._links.transport.write_heard(self._links.op(entry, verdict), partial(self._heard, lane, entry))

    def _heard(self, lane: _Lane, entry: LaneHalf, error: BaseException | None) -> None:
        if error is None:
            lane.listed.discard(entry.place)
            self._book.remove(entry)
        else:
            self._again.append((lane, entry))

    def _resend(self) -> None:
        for _ in range(len(self._again)):
            self._tell(*self._again.popleft())

    # lanes

    def _opened(self) -> _Lane:
        name = new_lane()
        self._names.append(name)
        own(name, self._owner)
        try:
            writer = self._links.lane(name)
            writer.open()
        except BaseException:
            self._names.remove(name)
            disown(name)
            raise
        return _Lane(name, writer, LaneTopics(writer.partitions, monotonic), monotonic())

    def _lose(self, lane: _Lane | None, flying: Sequence[LaneHalf]) -> None:
        """Use the lane no more. Of these nobody knows whether it has delivered them."""
        self._lane = None
        doubtful = [entry for entry in flying if entry.stage is Stage.FLYING]
        if lane is not None:
            self._doubts.append((lane, doubtful))
            for entry in self._book.lose(lane.name, self._slot):
                self.leave_to_job(entry)
            try:
                lane.writer.close()
            except Exception:
                _LOGGER.exception("The connections of a lane that is given up could not be closed")

    def _in_doubt(self, entry: LaneHalf) -> bool:
        return any(entry is one for _, doubtful in self._doubts for one in doubtful)

    def _recover(self) -> None:
        """Settle what was lost, then make another lane: one try, when it is time for one."""
        if monotonic() < self._recover_at:
            return
        try:
            while self._doubts:
                self._settle(*self._doubts[0])
                self._doubts.pop(0)
            self._lane = self._opened()
        except CheckbackError as error:
            self._recover_at = monotonic() + self._outage.failed(error)
        else:
            self._outage.answered()

    def _settle(self, lane: _Lane, doubtful: Sequence[LaneHalf]) -> None:
        """Say of each half message what the ledger says; a spent lane is fenced although nothing is in doubt."""
        if not doubtful and not lane.writer.spent:
            return
        ledger = self._links.settler().settle(self._links.group, lane.name)
        for entry in doubtful:
            if ledger is None:
                self._book.nobody_knows(entry)
                _LOGGER.error("Nobody can know whether transaction %s was delivered", entry.transaction_id)
            elif entry.place in ledger:
                self._was_delivered(lane, [entry])
            else:
                self.leave_to_job(entry)


def _report_lost(entry: LaneHalf, error: BaseException | None) -> None:
    if error is not None:
        _LOGGER.warning(
            "The commit of transaction %s did not reach Kafka (%r); the check will repair it",
            *(entry.transaction_id, error),
        )
