"""A segment as one would write it who had never heard of columns: one message, one op, one rule at a time.

It shares nothing with ``state`` but the policy: it spells out the transition table as conditions, so that the
table is checked as well. The tests compare it with :func:`state.evaluate` on random histories.
"""

from collections.abc import Sequence

from state import Event, Policy, RunLimits, Usage
from tests.state.records import Broken, Ended, Half, Message, Op, Parked, Rejected, Said
from tests.state.reference_lanes import Claims
from tests.state.reference_rows import SMALL, Spent, Transaction, Waiting

FOREIGN = "its cb-id or cb-group is not that of the half message it points at"
CONFLICT = "it contradicts the decision already taken for its half message"
LATE = "its check immunity is over: only a check decides now (late_end_transaction)"
TOO_MANY = "more ops wait for half messages of this segment than early_op_max allows"
TOO_LATE = "no half message came to its position within early_op_ttl"
EXHAUSTED = "checked in vain as often as check_max allows"
AGED = "undecided for longer than the age limit"
UNSETTLED = "its half message is of a lane, and it does not say what that has done (cb-delivered, cb-settled)"
LANELESS = "it says that a lane has delivered its half message, which names none"
CLAIMS = "of its half message, not read yet, too many other ops say that its lane has delivered it"
MISFIT = "it says that a lane has delivered its half message, which names none, or has another cb-id or cb-group"
CONTESTED = "contested: before it came, too many ops said of it under different ids that its lane has delivered it"
UNCHECKABLE = "its half message is contested: no check can find out what its lane has done, an operator decides"


class Reference:
    """One segment."""

    def __init__(self, policy: Policy, limits: RunLimits | None = None) -> None:
        self.policy = policy
        self.limits = limits or RunLimits()
        self.transactions: dict[int, Transaction] = {}
        self.waiting: list[Waiting] = []
        self.claims = Claims(policy.claims_max)
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
        left = self._fire_timers(now_ms, said)
        self._drop_stale_ops(now_ms, said)
        for record in came:
            if isinstance(record, Half):
                self.transactions[record.offset].set_aside()
        if came or left:
            self.touched_ms = now_ms
        self._look_ahead(now_ms, said)
        said.usages = self._usages()
        return said

    def _usages(self) -> dict[str, Usage]:
        found: dict[str, Usage] = {}
        for kept in (one for one in self.transactions.values() if one.kept):
            half = kept.half
            size = kept.size if kept.undecided else 0
            one = Usage(kept.undecided, size, kept.state == "delayed", kept.state in {"parked", "undeliverable"})
            found[half.group] = found.get(half.group, Usage()).plus(one)
        return found

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
        transaction = Transaction(half, ingested_ms=now_ms, deadline_ms=0, check_max=check_max)
        self._wait_until(transaction, now_ms + wait)
        self.transactions[half.offset] = transaction
        if half.says == "commit":
            self._decide(transaction, "commit", now_ms, said)
        elif half.says == "park":
            self._park(transaction, "", now_ms, said)
            transaction.state = "undeliverable"
        elif self.claims.contest(half):
            self._park(transaction, CONTESTED, now_ms, said)
            transaction.contested = True

    def _take_ops(self, ops: Sequence[Op], now_ms: int, said: Said) -> None:
        for op in ops:
            said.counts["op"] += 1
            if op.says in {"unknown", "check_unknown", "check_unreachable"}:
                said.counts[op.says] += 1
        ready: list[Op] = self._redeem(said)
        early: list[Waiting] = []
        in_order = sorted(ops, key=lambda op: op.op_offset)
        for waiting in [*self.waiting, *(Waiting(op, now_ms) for op in in_order)]:
            if waiting.op.half_offset in self.transactions:
                ready.append(waiting.op)
            elif waiting.op.says == "delivered":
                self._claim(waiting.op, said)
            elif len(early) < self.policy.early_op_max:
                early.append(waiting)
            else:
                self._reject(waiting.op, TOO_MANY, said)
        self.waiting = early
        answered: set[int] = set()
        for op in sorted(ready, key=lambda op: op.op_offset):
            transaction = self.transactions[op.half_offset]
            misses = transaction.misses
            waits = transaction.state == "checking"
            self._judge(transaction, op, now_ms, said)
            if transaction.state == "open" and (waits or (op.says == "check_unknown" and transaction.misses < misses)):
                answered.add(op.half_offset)
        told = [self.transactions[offset] for offset in answered]
        said.statuses += [one.told(now_ms) for one in told if one.state == "open"]

    def _redeem(self, said: Said) -> list[Op]:
        ready = []
        for place in sorted(self.claims.known.keys() & self.transactions.keys()):
            fitting, others = self.claims.redeem(self.transactions[place].half)
            ready += fitting
            for op in others:
                self._reject(op, MISFIT, said)
        return ready

    def _claim(self, op: Op, said: Said) -> None:
        kept = self.claims.take(op)
        if kept is None:
            said.counts["duplicate"] += 1
        elif not kept:
            self._reject(op, CLAIMS, said)

    def _judge(self, transaction: Transaction, op: Op, now_ms: int, said: Said) -> None:
        decision = "commit" if op.says.endswith("commit") else "rollback" if op.says.endswith("rollback") else None
        named = (transaction.half.transaction_id, transaction.half.group)
        if transaction.kept and (op.transaction_id, op.group) != named:
            self._reject(op, FOREIGN, said)
            return
        transaction.settled |= transaction.half.lane >= 0 and op.settled == 1
        if op.says == "delivered":
            self._take_delivered(transaction, op, said)
        elif transaction.refuses(op):
            self._reject(op, UNCHECKABLE if op.says == "resume" else UNSETTLED, said)
        elif transaction.undecided:
            self._judge_undecided(transaction, op, decision, now_ms, said)
        elif transaction.state == "undeliverable" and op.says == "redeliver":
            said.counts["applied"] += 1
            self._decide(transaction, "commit", now_ms, said)
        elif transaction.state == "parked" and op.says == "resume":
            self._unpark(transaction, "resumed", said)
            said.counts["resumed"] += 1
            said.counts["applied"] += 1
            transaction.state = "open"
            transaction.ingested_ms = transaction.deadline_ms = now_ms
            transaction.attempts = transaction.misses = 0
        elif transaction.state == "parked" and decision and op.says.startswith("operator"):
            said.counts["applied"] += 1
            self._decide(transaction, decision, now_ms, said)
        elif decision or op.says in {"resume", "redeliver"}:
            committed = transaction.state in {"committed", "delayed", "undeliverable"}
            stands = "commit" if committed else "rollback" if transaction.state == "rolled_back" else None
            if stands and stands == ("commit" if op.says == "redeliver" else decision):
                said.counts["duplicate"] += 1
            else:
                said.counts["conflict"] += 1
                self._reject(op, CONFLICT, said)
        else:
            said.counts["without_effect"] += 1

    def _take_delivered(self, transaction: Transaction, op: Op, said: Said) -> None:
        if not transaction.undecided and transaction.state != "parked":
            said.counts["duplicate" if transaction.state == "committed" else "conflict"] += 1
            if transaction.state != "committed":
                self._reject(op, CONFLICT, said)
        elif transaction.half.lane < 0:
            self._reject(op, LANELESS, said)
        else:
            self._unpark(transaction, "committed", said)
            transaction.state = "committed"
            said.counts.update({"applied": 1, "committed": 1, "by_lane": 1})
            self._end_status(transaction, said)

    def _judge_undecided(self, transaction: Transaction, op: Op, decision: str | None, now_ms: int, said: Said) -> None:
        if decision == op.says and self._too_late(transaction, now_ms):
            self._reject(op, LATE, said)
        elif decision:
            said.counts["applied"] += 1
            self._decide(transaction, decision, now_ms, said)
        elif op.says == "resume":
            said.counts["duplicate"] += 1
        elif op.says in {"unknown", "redeliver"}:
            said.counts["without_effect"] += 1
        else:  # an answer to a check
            self._take_answer(transaction, op, now_ms, said)

    def _too_late(self, transaction: Transaction, now_ms: int) -> bool:
        immunity_ms = transaction.half.immunity_ms
        return self.policy.late_end_needs_check and 0 <= immunity_ms < now_ms - transaction.ingested_ms

    def _decide(self, transaction: Transaction, decision: str, now_ms: int, said: Said) -> None:
        self._unpark(transaction, "committed" if decision == "commit" else "rolled back", said)
        if decision == "rollback":
            transaction.state = "rolled_back"
            said.counts["rolled_back"] += 1
        elif transaction.half.deliver_at_ms > now_ms:
            transaction.state = "delayed"
            transaction.deadline_ms = transaction.half.deliver_at_ms
            said.counts["delayed"] += 1
        else:
            self._deliver(transaction, said)
        self._end_status(transaction, said)

    def _deliver(self, transaction: Transaction, said: Said) -> None:
        transaction.state = "committed"
        said.counts["committed"] += 1
        (said.bundles if transaction.half.partition == -2 else said.delivered).append(transaction.message())

    def _take_answer(self, transaction: Transaction, op: Op, now_ms: int, said: Said) -> None:
        after_all = transaction.state == "open" and transaction.misses > 0 and op.says == "check_unknown"
        if after_all:
            transaction.asked_ms = now_ms
        elif transaction.state != "checking" or transaction.asked_ms is None:
            said.counts["duplicate"] += 1
            return
        said.counts["applied"] += 1
        transaction.state = "open"
        transaction.remark = op.value
        remark = (op.value or b"").decode(errors="replace")
        transaction.answer = (op.says.removeprefix("check_") + (f": {remark}" if remark else ""))[:200]
        if op.says == "check_unknown":
            transaction.attempts += 1
            transaction.misses = 0
            pause = self.policy.check_interval_ms
            for _ in range(transaction.attempts - 1):
                pause = max(pause, min(2 * pause, self.policy.check_interval_max_ms))
            self._wait_until(transaction, transaction.asked_ms + pause)
            return
        pause = self.policy.check_interval_ms
        for _ in range(transaction.misses):
            pause *= 2
        transaction.misses += 1
        most = max(self.policy.unreachable_backoff_max_ms, self.policy.check_interval_ms)
        self._wait_until(transaction, now_ms + min(pause, most))

    def _fire_timers(self, now_ms: int, said: Said) -> bool:
        """Whether a message left that was kept."""
        left = False
        spent = Spent()
        due = [t for t in self.transactions.values() if t.kept and now_ms >= t.deadline_ms]
        for transaction in sorted(due, key=lambda t: (t.deadline_ms, t.half.offset)):
            if self._allowed(transaction, now_ms, spent):
                self._fire(transaction, now_ms, said)
                left |= not transaction.kept
        return left

    def _allowed(self, transaction: Transaction, now_ms: int, spent: Spent) -> bool:
        group, limits = transaction.half.group, self.limits
        size = 0 if transaction.state in {"parked", "undeliverable"} else transaction.size
        size = min(size, SMALL) if self._asks(transaction, now_ms) else size
        room = spent.events < limits.events and spent.payload < limits.payload_bytes
        always = spent.of_group[group] < limits.group_least and size <= SMALL
        if spent.of_group[group] >= limits.group_events or not (room or always):
            return False
        spent.events += 1
        spent.of_group[group] += 1
        spent.payload += size
        return True

    def _asks(self, transaction: Transaction, now_ms: int) -> bool:
        aged = now_ms - transaction.ingested_ms >= self.policy.age_limit_ms
        exhausted = transaction.state == "open" and self._exhausted(transaction)
        return transaction.undecided and not aged and not exhausted

    def _exhausted(self, transaction: Transaction) -> bool:
        return transaction.attempts >= transaction.check_max and not transaction.unsettled

    def _fire(self, transaction: Transaction, now_ms: int, said: Said) -> None:
        if transaction.state in {"parked", "undeliverable"}:
            self._unpark(transaction, "abandoned", said)
            transaction.state = "abandoned"
            said.counts["abandoned"] += 1
        elif transaction.state == "delayed":
            self._deliver(transaction, said)
        elif now_ms - transaction.ingested_ms >= self.policy.age_limit_ms:
            self._park(transaction, AGED, now_ms, said)
        elif transaction.state == "open" and self._exhausted(transaction):
            after = getattr(self.policy.on_exhausted, "event")  # noqa: B009  (an OnExhausted need not have it)
            if after == Event.EXHAUSTED:
                self._park(transaction, EXHAUSTED, now_ms, said)
            else:
                self._decide(transaction, {16: "commit", 17: "rollback"}[after], now_ms, said)
        else:
            self._ask(transaction, now_ms, said)

    def _park(self, transaction: Transaction, reason: str, now_ms: int, said: Said) -> None:
        transaction.state = "parked"
        transaction.deadline_ms = now_ms + self.policy.parked_ttl_ms
        said.counts["parked"] += 1
        said.parked.append(Parked(transaction.message(), transaction.attempts, reason, transaction.answer))
        transaction.answer = ""
        self._end_status(transaction, said)

    def _unpark(self, transaction: Transaction, became: str, said: Said) -> None:
        if transaction.state in {"parked", "undeliverable"}:
            half = transaction.half
            said.unparked.append(Ended(half.offset, half.transaction_id, half.group, half.topic, became))

    def _ask(self, transaction: Transaction, now_ms: int, said: Said) -> None:
        first = transaction.asked_ms is None
        transaction.state = "checking"
        transaction.asked_ms = now_ms
        self._wait_until(transaction, now_ms + self.policy.check_answer_ttl_ms)
        attempt = transaction.attempts + 1
        said.counts["checked"] += 1
        said.checks.append(transaction.check(attempt))
        if first:
            said.statuses.append(transaction.status(attempt, self.policy.check_interval_ms))

    def _drop_stale_ops(self, now_ms: int, said: Said) -> None:
        fresh = []
        for waiting in self.waiting:
            if now_ms - waiting.came_ms >= self.policy.early_op_ttl_ms:
                self._reject(waiting.op, TOO_LATE, said)
            else:
                fresh.append(waiting)
        self.waiting = fresh

    def _look_ahead(self, now_ms: int, said: Said) -> None:
        deadlines = [t.deadline_ms for t in self.transactions.values() if t.kept]
        deadlines += [waiting.came_ms + self.policy.early_op_ttl_ms for waiting in self.waiting]
        deadlines += [now_ms + self.policy.early_op_ttl_ms] if self.claims else []
        forget_at = self.touched_ms + self.policy.early_op_ttl_ms
        if not deadlines and now_ms >= forget_at:
            said.forgotten = True
            self.transactions = {}
            self.touched_ms = 0
            return
        earliest = min(deadlines, default=forget_at)
        slack = max(self.policy.timer_slack_ms, 1)
        said.timer_ms = earliest if earliest % slack == 0 else (earliest // slack + 1) * slack
        if earliest <= now_ms:  # left for want of room
            said.timer_ms = now_ms
        said.ledger = {offset: t.state for offset, t in sorted(self.transactions.items())}

    def _wait_until(self, transaction: Transaction, deadline_ms: int) -> None:
        transaction.deadline_ms = min(deadline_ms, transaction.ingested_ms + self.policy.age_limit_ms)

    def _end_status(self, transaction: Transaction, said: Said) -> None:
        if transaction.asked_ms is not None:
            said.ended.append(transaction.status())
            transaction.asked_ms = None

    def _reject(self, op: Op, reason: str, said: Said) -> None:
        said.counts["rejected"] += 1
        fact = "/delivered" if op.says == "delivered" else "/settled" if op.settled else ""
        action = "commit" if op.says == "delivered" else op.says
        written = (op.half_offset, op.op_offset, op.transaction_id, op.group, f"{action}/{op.source}{fact}")
        said.rejected.append(Rejected(*written, op.key, op.value, op.headers, reason))
