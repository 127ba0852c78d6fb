"""The lane's own process: the steps that are open to it."""

from collections.abc import Iterator
from functools import reduce
from typing import Any

from tests.state.lanes.kafka import NONE, Answer, Call, Halves, Request, answers, handle, init
from tests.state.lanes.setting import Setting
from tests.state.lanes.world import Fact, Flaw, Op, Step, World, sent

_LISTED = 2
"""Requests that put the ledger into a transaction."""


def of_owner(world: World, setting: Setting) -> Iterator[Step]:
    """Group commits one after the other. After any error the process settles its own lane, and uses it no more."""
    owner, goes_on = world.owner, world.owner.group < len(setting.groups)
    group = setting.groups[owner.group] if goes_on else NONE
    if owner.at == "idle":
        if goes_on:
            yield from _requests(world, setting, Call(Request.ADD_PARTITIONS, group), at="open")
        for half in sorted(setting.rolled_back - owner.tried):  # it knows, and needs to ask nobody
            yield from _sends(world, half, Op("rollback", Fact.SETTLED))
    elif owner.at == "open":
        yield from _writes(world, setting, group)
        yield from _lists(world, setting, group)
        yield from _ends(world, setting, group)
    elif owner.at == "late ledger":
        yield from _commits_ledger(world)
    elif owner.at == "ops":
        yield from _tells(world, setting, group)
    elif owner.at == "doubt" and Flaw.SETTLED_IN_DOUBT in setting.flaws:
        yield "owner gives it to the job", _become(world, at="ops", by_job=owner.by_job | group)
    elif owner.at == "doubt":
        yield "owner is in doubt", _settles(world)
    else:
        yield from _gives_up(world, setting)


def _become(world: World, **changes: Any) -> World:
    return world._replace(owner=world.owner._replace(**changes))


def _settles(world: World) -> World:
    """The lane is lost; it remembers what it needs for the last ops."""
    return _become(world, at="settle", group=0, written=NONE, listing=0, reset=False, tried=NONE)


def _requests(world: World, setting: Setting, call: Call, **changes: Any) -> Iterator[Step]:
    for name, kafka, answer in answers(world.kafka, "owner", call, setting.late):
        after = world._replace(kafka=kafka)
        if answer == Answer.FAILED:
            yield name, _settles(after)
        else:
            reset = world.owner.reset or answer == Answer.DONE_AFTER_A_RESET
            yield name, _become(after, **changes, reset=reset)


def _writes(world: World, setting: Setting, group: Halves) -> Iterator[Step]:
    owner = world.owner
    for half in sorted(group - owner.written)[:1]:  # other orders of a group's messages are the same with other names
        call = Call(Request.PRODUCE, frozenset({half}))
        yield from _requests(world, setting, call, written=owner.written | call.halves)
    if group <= owner.written and Flaw.OP_BEFORE_THE_COMMIT in setting.flaws:
        ops = reduce(lambda before, half: sent(before, half, Op("commit", Fact.DELIVERED)), group, world)
        yield f"owner sends ops of {sorted(group)} before the commit", ops


def _lists(world: World, setting: Setting, group: Halves) -> Iterator[Step]:
    """While messages are on their way, as librdkafka does it."""
    owner, flaws = world.owner, setting.flaws
    if Flaw.LEDGER_IN_NO_TRANSACTION in flaws:
        return
    if owner.listing == 0:
        yield from _requests(world, setting, Call(Request.ADD_OFFSETS), listing=1)
    elif owner.listing == 1:
        listed = group if Flaw.LEDGER_FORGETS in flaws else group | (owner.delivered - owner.acknowledged)
        yield from _requests(world, setting, Call(Request.COMMIT_OFFSETS, listed), listing=_LISTED)


def _ends(world: World, setting: Setting, group: Halves) -> Iterator[Step]:
    owner, no_ledger = world.owner, Flaw.LEDGER_IN_NO_TRANSACTION in setting.flaws
    over = {"written": NONE, "listing": 0}
    if group <= owner.written and (no_ledger or owner.listing == _LISTED):
        commit, delivered = Call(Request.COMMIT), owner.delivered | group
        following = "late ledger" if no_ledger else "ops"
        yield from _requests(world, setting, commit, at=following, delivered=delivered, **over)
        after = handle(world.kafka, "owner", commit)
        if after is not None:
            yield "owner commits and hears nothing", _become(world._replace(kafka=after), at="doubt", **over)
    if not group <= owner.written:  # a topic refuses what is missing
        yield from _requests(world, setting, Call(Request.ABORT), at="ops", by_job=owner.by_job | group, **over)


def _tells(world: World, setting: Setting, group: Halves) -> Iterator[Step]:
    """Each op is sent once, or again where it was not acknowledged. After a failed connection the lane ends then."""
    owner = world.owner
    for half in sorted((group | owner.delivered) - owner.acknowledged):
        fact = Fact.DELIVERED if half in owner.delivered else Fact.SETTLED
        yield from _sends(world, half, Op("commit", fact))
    if group <= owner.tried:
        spent = owner.reset and Flaw.EPOCH_KEPT_AFTER_A_RESET not in setting.flaws
        goes_on = _become(world, at="idle", group=owner.group + 1, reset=False)
        yield "owner goes on", _settles(world) if spent else goes_on


def _commits_ledger(world: World) -> Iterator[Step]:
    if world.kafka.holder == "owner":
        kafka = world.kafka._replace(ledger=world.owner.delivered)
        yield "owner commits the ledger", _become(world._replace(kafka=kafka), at="ops")
    else:
        yield "owner finds itself fenced", _settles(world)


def _gives_up(world: World, setting: Setting) -> Iterator[Step]:
    owner, kafka = world.owner, world.kafka
    if owner.at == "settle":
        fenced = init(kafka, "owner settling")
        if fenced is not None:
            yield "owner fences its lane", _become(world._replace(kafka=fenced), at="read")
    elif owner.at == "read":
        if kafka.pending_ledger is None and kafka.ledger is not None:
            yield "owner reads its ledger", _become(world, at="last ops", found=kafka.ledger)
    else:
        for half in sorted(setting.halves - setting.rolled_back - owner.acknowledged):
            fact = Fact.DELIVERED if half in owner.found | owner.delivered else Fact.SETTLED
            for name, after in _sends(world, half, Op("commit", fact)):
                yield name, _become(after, tried=NONE)


def _sends(world: World, half: int, op: Op) -> Iterator[Step]:
    owner, name = world.owner, f"owner's op of {half}: {op.says}, {op.fact.name.lower()}"
    tried = owner.tried | {half}
    after = sent(world, half, op)
    yield f"{name}; acknowledged", _become(after, tried=tried, acknowledged=owner.acknowledged | {half})
    yield f"{name}; not acknowledged", _become(after, tried=tried)
    yield f"{name}; lost", _become(world, tried=tried)
