"""A segment as one would write it who had never heard of columns: one message, one op, one rule at a time.

It shares nothing with ``state`` but the policy: it spells out the transition table as conditions, so that the
table is checked as well. The tests compare it with :func:`state.evaluate` on random histories.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from state import Policy
from tests.state.records import Broken, Check, Half, Message, Op, Parked, Rejected, Said, Status

FOREIGN = "its cb-id or cb-group is not that of the half message it points at"
CONFLICT = "it contradicts the decision already taken for its half message"
TOO_MANY = "more ops wait for half messages of this segment than early_op_max allows"
TOO_LATE = "no half message came to its position within early_op_ttl"
EXHAUSTED = "checked in vain as often as check_max allows"
AGED = "undecided for longer than the age limit"


@dataclass
class Transaction:
    """What is known of one half message."""

    half: Half
    born_ms: int
    deadline_ms: int
    check_max: int
    state: str = "open"
    asked_ms: int | None = None
    attempts: int = 0
    misses: int = 0

    @property
    def decided(self) -> bool:
        return self.state in {"committed", "rolled_back", "parked"}

    def message(self) -> Message:
        half = self.half
        return Message(
            *(half.offset, half.tx_id, half.group, half.topic, half.partition),
            *(half.key, half.value, half.headers, self.born_ms),
        )

    def status(self, attempt: int = -1, check_max: int = -1) -> Status:
        half = self.half
        return Status(half.offset, half.tx_id, half.group, half.topic, self.born_ms, attempt, check_max)


@dataclass
class Waiting:
    """An op that came before its half message."""

    op: Op
    came_ms: int


class Reference:
    """One segment."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.transactions: dict[int, Transaction] = {}
        self.waiting: list[Waiting] = []
        self.touched_ms = 0

    def step(self, now_ms: int, *came: Half | Op | Broken) -> Said:
        said = Said()
        for record in came:
            if isinstance(record, Broken):
                said.broken.append(record)
                said.counts["rejected"] += 1
        for record in came:
            if isinstance(record, Half):
                self._take_in(record, now_ms, said)
        self._take_ops([record for record in came if isinstance(record, Op)], now_ms, said)
        parked = self._fire_timers(now_ms, said)
        self._drop_stale_ops(now_ms, said)
        if came or parked:
            self.touched_ms = now_ms
        self._look_ahead(now_ms, said)
        return said

    def outstanding(self) -> list[Message]:
        """Messages for which a check has been asked and not been answered."""
        return [t.message() for t in self.transactions.values() if t.state == "checking"]

    def _take_in(self, half: Half, now_ms: int, said: Said) -> None:
        if half.offset in self.transactions:
            said.counts["duplicate"] += 1
            return
        said.counts["half"] += 1
        wait = self.policy.transaction_timeout_ms if half.immunity_ms == -1 else half.immunity_ms
        check_max = self.policy.check_max if half.check_max == -1 else half.check_max
        transaction = Transaction(half, born_ms=now_ms, deadline_ms=0, check_max=check_max)
        self._wait_until(transaction, now_ms + wait)
        self.transactions[half.offset] = transaction

    def _take_ops(self, ops: Sequence[Op], now_ms: int, said: Said) -> None:
        for op in ops:
            said.counts["op"] += 1
            if op.says not in {"commit", "rollback"}:
                said.counts[op.says] += 1
        ready: list[Op] = []
        early: list[Waiting] = []
        in_order = sorted(ops, key=lambda op: op.op_offset)
        for waiting in [*self.waiting, *(Waiting(op, now_ms) for op in in_order)]:
            if waiting.op.half_offset in self.transactions:
                ready.append(waiting.op)
            elif len(early) < self.policy.early_op_max:
                early.append(waiting)
            else:
                self._reject(waiting.op, TOO_MANY, said)
        self.waiting = early
        for op in sorted(ready, key=lambda op: op.op_offset):
            self._judge(self.transactions[op.half_offset], op, now_ms, said)

    def _judge(self, transaction: Transaction, op: Op, now_ms: int, said: Said) -> None:
        if transaction.decided:
            if op.says in {"commit", "rollback"}:
                self._judge_again(transaction, op, said)
        elif (op.tx_id, op.group) != (transaction.half.tx_id, transaction.half.group):
            self._reject(op, FOREIGN, said)
        elif op.says == "commit":
            transaction.state = "committed"
            said.counts["committed"] += 1
            said.delivered.append(transaction.message())
            self._end_status(transaction, said)
        elif op.says == "rollback":
            transaction.state = "rolled_back"
            said.counts["rolled_back"] += 1
            self._end_status(transaction, said)
        elif op.says != "unknown":  # an answer to a check
            self._take_answer(transaction, op, now_ms, said)

    def _judge_again(self, transaction: Transaction, op: Op, said: Said) -> None:
        if {"commit": "committed", "rollback": "rolled_back"}[op.says] == transaction.state:
            said.counts["duplicate"] += 1
        else:
            said.counts["conflict"] += 1
            self._reject(op, CONFLICT, said)

    def _take_answer(self, transaction: Transaction, op: Op, now_ms: int, said: Said) -> None:
        if transaction.state != "checking" or transaction.asked_ms is None:
            said.counts["duplicate"] += 1
            return
        transaction.state = "open"
        if op.says == "check_unknown":
            transaction.attempts += 1
            transaction.misses = 0
            self._wait_until(transaction, transaction.asked_ms + self.policy.check_interval_ms)
            return
        pause = self.policy.check_interval_ms
        for _ in range(transaction.misses):
            pause *= 2
        transaction.misses += 1
        most = max(self.policy.unreachable_backoff_max_ms, self.policy.check_interval_ms)
        self._wait_until(transaction, now_ms + min(pause, most))

    def _fire_timers(self, now_ms: int, said: Said) -> bool:
        parked = False
        for transaction in self.transactions.values():
            if transaction.decided or now_ms < transaction.deadline_ms:
                continue
            if now_ms - transaction.born_ms >= self.policy.age_limit_ms:
                self._park(transaction, AGED, said)
                parked = True
            elif transaction.state == "open" and transaction.attempts >= transaction.check_max:
                self._park(transaction, EXHAUSTED, said)
                parked = True
            else:
                self._ask(transaction, now_ms, said)
        return parked

    def _park(self, transaction: Transaction, reason: str, said: Said) -> None:
        transaction.state = "parked"
        said.counts["parked"] += 1
        said.parked.append(Parked(transaction.message(), transaction.attempts, reason))
        self._end_status(transaction, said)

    def _ask(self, transaction: Transaction, now_ms: int, said: Said) -> None:
        transaction.state = "checking"
        transaction.asked_ms = now_ms
        self._wait_until(transaction, now_ms + self.policy.check_answer_ttl_ms)
        attempt = transaction.attempts + 1
        said.counts["checked"] += 1
        said.checks.append(Check(transaction.message(), attempt, transaction.check_max))
        said.statuses.append(transaction.status(attempt, transaction.check_max))

    def _drop_stale_ops(self, now_ms: int, said: Said) -> None:
        fresh = []
        for waiting in self.waiting:
            if now_ms - waiting.came_ms >= self.policy.early_op_ttl_ms:
                self._reject(waiting.op, TOO_LATE, said)
            else:
                fresh.append(waiting)
        self.waiting = fresh

    def _look_ahead(self, now_ms: int, said: Said) -> None:
        deadlines = [t.deadline_ms for t in self.transactions.values() if not t.decided]
        deadlines += [waiting.came_ms + self.policy.early_op_ttl_ms for waiting in self.waiting]
        forget_at = self.touched_ms + self.policy.early_op_ttl_ms
        if not deadlines and now_ms >= forget_at:
            said.forgotten = True
            self.transactions = {}
            self.touched_ms = 0
            return
        earliest = min(deadlines, default=forget_at)
        slack = max(self.policy.timer_slack_ms, 1)
        said.timer_ms = earliest if earliest % slack == 0 else (earliest // slack + 1) * slack
        said.ledger = {offset: t.state for offset, t in sorted(self.transactions.items())}

    def _wait_until(self, transaction: Transaction, deadline_ms: int) -> None:
        transaction.deadline_ms = min(deadline_ms, transaction.born_ms + self.policy.age_limit_ms)

    def _end_status(self, transaction: Transaction, said: Said) -> None:
        if transaction.asked_ms is not None:
            said.ended.append(transaction.status())

    def _reject(self, op: Op, reason: str, said: Said) -> None:
        said.counts["rejected"] += 1
        written = (op.half_offset, op.op_offset, op.tx_id, op.group, f"{op.says}/{op.source}")
        said.rejected.append(Rejected(*written, op.key, op.value, op.headers, reason))
