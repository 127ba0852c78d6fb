"""How each fault is done to the consumers, or to what they need."""

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from torture.effects import shop
from torture.effects.database_faults import OF_DATABASE
from torture.effects.member import SESSION_SECONDS
from torture.effects.orders import ALWAYS, TOPIC, Order
from torture.effects.schedule import Fault, Round
from torture.effects.steps import CLOSES, REBALANCING, Step
from torture.effects.strike import Deed
from torture.effects.striking import strike_one
from torture.effects.system import EffectsSystem, Member
from torture.processes import Process
from torture.waiting import GIVE_UP_SECONDS, NotRecoveredError

_OTHERS_SECONDS = 15.0
"""For the others to go on without one that was stopped, unless it holds the database's lock."""
_ASK_SECONDS = 30.0
_READ_AGAIN_SECONDS = 0.5
_TAKING = frozenset({Step.LEAVING, Step.LEAVING_UNSTORED, Step.LEFT})
_SHARED_OUT_SECONDS = 2.0
_DEATHS_UNTIL_ALONE = 3
"""After so many readers have ended without a word, the next one begins messages alone."""


def inject(system: EffectsSystem, this: Round) -> float:
    """Do it, and bring back what an operator or an orchestrator would.

    Returns:
        When recovery began (``time.time()``).

    Raises:
        NotRecoveredError: the system did not do in time what it must.
    """
    return _FAULTS[this.fault](system, this)


def _kill_at_step(system: EffectsSystem, this: Round) -> float:
    if this.step in REBALANCING:
        return _kill_at_rebalance(system, this)
    if this.step in CLOSES:
        return _kill_at_close(system, this)
    if this.step is Step.BEGUN_ALONE:
        return _kill_when_alone(system, this)
    strike_one(system, this)
    return time.time()


def _kill_at_rebalance(system: EffectsSystem, this: Round) -> float:
    """Another consumer joins; it, or one of those that have to give it partitions, dies and is not started again."""
    if this.step in _TAKING:  # of one that has just died it would get what nobody has to give it
        time.sleep(SESSION_SECONDS + _SHARED_OUT_SECONDS)
    victim = strike_one(system, this, system.add_member)
    system.remove(victim)
    return time.time()


def _kill_at_close(system: EffectsSystem, this: Round) -> float:
    """End a consumer and kill it as it closes. One without partitions stores nothing: then end another one."""
    dice = random.Random(this.seed)  # noqa: S311  (dice, no secret)
    closing: list[Member] = []

    def close_one() -> Process:
        for member in closing:  # it had no partitions
            system.start_again(member)
            system.members.append(member)
        closing[:] = [dice.choice(system.members)]
        system.members.remove(closing[0])  # else its end counts as a defect
        closing[0].process.terminate_in_order()
        return closing[0].process

    try:
        strike_one(system, this, close_one)
    finally:
        system.members += closing
    return time.time()


def _kill_when_alone(system: EffectsSystem, this: Round) -> float:
    """An order kills readers until one begins messages alone; that one dies as it does.

    Where readers have just died of other orders they begin this one alone from the first, and it may be a dead letter.
    """
    strike_one(system, this, lambda: shop.want(system.ground.folder, Order(deaths=_DEATHS_UNTIL_ALONE)))
    name = _wanted(system)
    system.wait_until(lambda: _has_end(system, name), GIVE_UP_SECONDS, f"{name}, which kills three readers, had no end")
    return time.time()


def _poison(system: EffectsSystem, _this: Round) -> float:
    """An order that kills each consumer that reads it must become a dead letter."""
    shop.want(system.ground.folder, Order(deaths=ALWAYS))
    name = _wanted(system)

    otherwise = f"{name}, which kills its readers, became no dead letter"
    system.wait_until(lambda: _is_dead(system, name), GIVE_UP_SECONDS, otherwise)
    return time.time()


def _kill(system: EffectsSystem, this: Round) -> float:
    _drawn(system, this).process.kill()
    return time.time()


def _kill_all(system: EffectsSystem, _this: Round) -> float:
    for member in system.members:
        with suppress(ProcessLookupError):
            os.kill(member.process.pid, signal.SIGKILL)
    return time.time()


def _stop_one(system: EffectsSystem, this: Round) -> float:
    """1. One is stopped.  2. The others do its work, once its session is over.  3. It continues, and must not store."""
    if this.step is None:  # 1
        zombie = _drawn(system, this)
        os.kill(zombie.process.pid, signal.SIGSTOP)
    else:
        zombie = strike_one(system, this, deed=Deed.STOPPED)
    stopped = time.time()
    with suppress(NotRecoveredError):  # 2
        system.wait_for_effects(stopped + SESSION_SECONDS, _OTHERS_SECONDS)
    os.kill(zombie.process.pid, signal.SIGCONT)  # 3
    return time.time()


def _restart(system: EffectsSystem, this: Round) -> float:
    member = _drawn(system, this)
    system.end(member)
    system.start_again(member)
    return time.time()


def _change_members(system: EffectsSystem, _this: Round) -> float:
    system.add_member()
    system.wait_for_effects(time.time())
    system.remove(system.members[0])
    return time.time()


def _add_partition(system: EffectsSystem, _this: Round) -> float:
    system.partitions += 1
    admin = AdminClient({"bootstrap.servers": system.ground.broker.bootstrap_servers, "log_level": 0})
    admin.create_partitions([NewPartitions(TOPIC, system.partitions)])[TOPIC].result(_ASK_SECONDS)
    shop.grow(system.ground.folder, system.partitions)
    return time.time()


def _kill_broker(system: EffectsSystem, _this: Round) -> float:
    system.ground.broker.kill()
    system.ground.broker.start()
    return time.time()


def _restart_broker(system: EffectsSystem, _this: Round) -> float:
    system.ground.broker.stop()
    system.ground.broker.start()
    return time.time()


def _kill_job(system: EffectsSystem, _this: Round) -> float:
    system.job.kill_driver()
    system.restart_job()
    return time.time()


def _wanted(system: EffectsSystem) -> str:
    folder = system.ground.folder
    system.wait_until(lambda: bool(shop.wanted_id(folder)), _ASK_SECONDS, "the shop did not send what was wanted")
    return shop.wanted_id(folder)


def _has_end(system: EffectsSystem, name: str) -> bool:
    system.books.read()
    return bool(system.books.effects[name]) or _is_dead(system, name)


def _is_dead(system: EffectsSystem, name: str) -> bool:
    time.sleep(_READ_AGAIN_SECONDS)
    return name in system.look.dead_letters()[0]


def _drawn(system: EffectsSystem, this: Round) -> Member:
    return random.Random(this.seed).choice(system.members)  # noqa: S311  (dice, no secret)


_FAULTS: dict[Fault, Callable[[EffectsSystem, Round], float]] = {
    Fault.KILLED_AT_STEP: _kill_at_step,
    Fault.KILLED: _kill,
    Fault.ALL_KILLED: _kill_all,
    Fault.ZOMBIE: _stop_one,
    Fault.RESTARTED: _restart,
    Fault.MEMBERS_CHANGED: _change_members,
    Fault.PARTITION_ADDED: _add_partition,
    Fault.BROKER_KILLED: _kill_broker,
    Fault.BROKER_RESTARTED: _restart_broker,
    Fault.JOB_KILLED: _kill_job,
    Fault.POISONED: _poison,
    **OF_DATABASE,
}
