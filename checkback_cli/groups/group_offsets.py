"""What ``checkback offsets`` does."""

import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

import typer
from rich.console import Console
from rich.prompt import Confirm

from checkback.consumer.listener import TopicPartition
from checkback.consumer.resetting.control import ResetOrder
from checkback.consumer.resetting.control_topic import ControlTopic
from checkback.consumer.resetting.group_offsets import GroupMember, GroupOffsets
from checkback.consumer.resetting.reset_plan import Direction, Move, Target, plan
from checkback.consumer.resetting.reset_run import Report, ResetRun
from checkback.exceptions import OperatorError
from checkback_cli.on_call.decide import on_a_terminal
from checkback_cli.terminal.listing import show_rows
from checkback_cli.terminal.options import WRONG
from conf import KafkaSettings

_NOBODY = "-"


class GroupReset(NamedTuple):
    """What an operator wants to be done."""

    group: str
    topic: str
    to: str
    partitions: Sequence[int] | None
    """None: all."""
    force: bool
    new_group: bool = False
    """Also of a group that has stored nothing and has no members."""


def show_offsets(kafka: KafkaSettings, group: str, topic: str | None, *, as_json: bool) -> None:
    """Print where a group is.

    Raises:
        OperatorError: nothing is known of the group.
    """
    with GroupOffsets(kafka.bootstrap_servers, group, kafka.python_client) as asked:
        members, stored = asked.members(), asked.stored()
        if not members and not stored:
            raise OperatorError(_unknown(group))
        read = {*stored, *(one for member in members for one in member.partitions)}
        if topic is not None:
            read = {TopicPartition(topic, number) for number in asked.partitions(topic)}
        found = asked.offsets(read)
    rows = []
    for partition in sorted(found):
        one = found[partition]
        rows.append((*partition, one.stored, one.minimum, one.maximum, one.lag, *_who(_owner(partition, members))))
    names = ("topic", "partition", "next", "first", "end", "lag", "consumer", "host")
    show_rows(names, rows if as_json else [_filled(row) for row in rows], as_json=as_json)


def reset_offsets(
    kafka: KafkaSettings, wanted: GroupReset, seconds: float, *, dry_run: bool, ask: bool, as_json: bool
) -> None:
    """Say what is to be done, ask, do it, and say who has.

    Raises:
        OperatorError: not everything was set, or what is wanted makes no sense.
    """
    if ask and not on_a_terminal():
        raise typer.BadParameter("there is nobody to ask here: give --yes.")
    target = Target.parse(wanted.to, time.time_ns() // 1_000_000)
    with ExitStack() as stack:
        group = stack.enter_context(GroupOffsets(kafka.bootstrap_servers, wanted.group, kafka.python_client))
        chosen = _chosen(group.partitions(wanted.topic), wanted)
        if not wanted.new_group and not group.stored() and not group.members():
            raise OperatorError(f"{_unknown(wanted.group)} A group that is new gets offsets with --new-group.")
        known = group.offsets([TopicPartition(wanted.topic, one) for one in chosen], target)
        moves = plan(known.values(), target, force=wanted.force)
        offsets = {move.partition: move.after for move in moves if move.done}
        unforced = [move.partition for move in moves if move.direction is Direction.FORWARD and not move.done]
        if dry_run or not offsets or not as_json:
            show_rows(("partition", "next", "to", "what"), [_planned(move) for move in moves], as_json=as_json)
        if dry_run:
            return
        if not offsets:
            _complain(_unforced(unforced))
            return
        if ask and not Confirm.ask(f"Have the group {wanted.group} go on there?", default=False):
            typer.echo("Nothing was done.")
            raise typer.Exit(WRONG)
        order = ResetOrder(uuid.uuid4().hex, wanted.group, wanted.topic, offsets)
        run = ResetRun(
            order,
            {move.partition: move.before for move in moves},
            group,
            lambda: _control(kafka, stack),
            time.monotonic,
        )
        with Console(stderr=True).status(f"Waiting for the consumers of {wanted.group} ..."):
            report = run.run(seconds)
    rows = [(one.partition, one.before, one.after, one.consumer) for _, one in sorted(report.done.items())]
    show_rows(("partition", "was at", "goes on at", "set by"), rows, as_json=as_json)
    _complain(_not_done(wanted.group, report, seconds), _unforced(unforced))


def _complain(*sentences: str) -> None:
    if said := " ".join(filter(None, sentences)):
        raise OperatorError(said)


def _control(kafka: KafkaSettings, stack: ExitStack) -> ControlTopic:
    topic = kafka.topics.control
    found = ControlTopic(topic, kafka.bootstrap_servers, kafka.sink_client)
    stack.callback(found.close)
    if not found.go_to_end():
        raise OperatorError(
            f"Kafka has no topic {topic}, by which running consumers hear of it: run 'checkback topics create', and "
            "start them again; or stop the group."
        )
    return found


def _chosen(there: Sequence[int], wanted: GroupReset) -> Sequence[int]:
    missing = [str(one) for one in wanted.partitions or () if one not in there]
    if missing:
        raise OperatorError(f"{wanted.topic} has {len(there)} partitions, and none with number {', '.join(missing)}.")
    return sorted(set(wanted.partitions)) if wanted.partitions else there


def _planned(move: Move) -> tuple[object, ...]:
    before = _NOBODY if move.before is None else move.before
    return (move.partition, before, move.after, _said(move))


def _said(move: Move) -> str:
    distance = abs(move.after - (move.before or 0))
    if move.direction is Direction.BACK:
        return f"{distance} again"
    if move.direction is Direction.FORWARD:
        return f"{distance} passed over" if move.done else "stays: forward only with --force"
    return "nothing was stored" if move.direction is Direction.FIRST else "stays"


def _unknown(group: str) -> str:
    return f"The group {group} has stored nothing and has no members: is the name right?"


def _owner(partition: TopicPartition, members: Sequence[GroupMember]) -> GroupMember | None:
    return next((member for member in members if partition in member.partitions), None)


def _who(member: GroupMember | None) -> tuple[str | None, str | None]:
    return (None, None) if member is None else (member.client_id, member.host)


def _filled(row: Sequence[object]) -> tuple[object, ...]:
    return tuple(_NOBODY if one is None else one for one in row)


def _not_done(group: str, report: Report, seconds: float) -> str:
    """Which partitions were not set, who has them, and what to do; empty: all that were to be set are."""
    if not report.waited_for:
        return ""
    by_owner: dict[GroupMember | None, list[int]] = {}
    for partition, owner in sorted(report.waited_for.items()):
        by_owner.setdefault(owner, []).append(partition)
    said = []
    for owner, numbers in by_owner.items():
        said.append(
            f"{_named(numbers)}: nobody has {'it' if len(numbers) == 1 else 'them'}"
            if owner is None
            else f"{_named(numbers)}: {owner.client_id} at {owner.host}"
        )
    return (
        f"Not everything was set within {seconds:g} s; nothing was heard of {'; '.join(said)}. Consumers that are not "
        f"Checkback's do not hear of it, nor those that broadcast: stop all of the group {group}, and do it again. "
        "It is set then while nobody runs. Or a member has died, and its session has not timed out yet (up to 45 s by "
        "default): do it again after that."
    )


def _unforced(partitions: Sequence[int]) -> str:
    """Which partitions stay since they would go forward; empty: none."""
    if not partitions:
        return ""
    return f"Not set: {_named(partitions)}. To go forward passes messages over that are never read, and needs --force."


def _named(partitions: Sequence[int]) -> str:
    return f"partition{'s' * (len(partitions) > 1)} {', '.join(map(str, partitions))}"
