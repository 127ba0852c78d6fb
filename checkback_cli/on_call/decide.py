"""``checkback commit``, ``rollback``, ``resume`` and ``redeliver``: what whoever is on call decides."""

import getpass
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from checkback.wire.checks import REMARK_CHARACTERS
from checkback.wire.lanes import LaneFact
from checkback.wire.printable import printable
from checkback.wire.protocol import Action, HalfPosition
from checkback_cli.terminal.options import (
    TRY_AGAIN,
    WRONG,
    BootstrapServer,
    ConfigFile,
    Group,
    OlderThan,
    Topic,
    age,
    place_of_half,
)
from checkback_cli.terminal.reading import reading

if TYPE_CHECKING:
    from checkback.operations.lanes import LanesSettled
    from checkback.operations.operator_ops import Row
    from checkback.operations.story import Story
    from checkback.wire.protocol import Topics
    from checkback_cli.on_call.candidates import Candidate, TransactionFilter
    from checkback_cli.on_call.waiting import Awaited
    from conf import KafkaSettings, Settings

_MOST_SHOWN = 50
_MOST_TOLD = 10
"""So many stories are read again to say what became of each; of more, the number."""
_WAIT_MS = 30_000

Ids = Annotated[
    list[str] | None,
    typer.Argument(help="Transaction ids, or unambiguous beginnings of them (4 characters or more).", metavar="TX"),
]
Halves = Annotated[
    list[HalfPosition] | None,
    typer.Option(
        "--half",
        parser=place_of_half,
        metavar="PARTITION:OFFSET",
        help="Places of half messages, where an id is that of several.",
        show_default=False,
    ),
]
All = Annotated[bool, typer.Option("--all", help="All of --group that wait, as far as --topic and --older-than say.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Who = Annotated[str | None, typer.Option(help="Who decides; by default the user's name.", show_default=False)]
Why = Annotated[str | None, typer.Option(help="Why; asked for on a terminal, else required.", show_default=False)]
Wait = Annotated[
    int | None,
    typer.Option(
        parser=age,
        metavar="TIME",
        help="Wait this long for what becomes of them; 0s: not. On a terminal 30s, else not.",
        show_default=False,
    ),
]
Delivered = Annotated[
    bool,
    typer.Option("--delivered", help="Their real topic has them, as was looked: of those of which nobody can know."),
]
NotDelivered = Annotated[bool, typer.Option("--not-delivered", help="Likewise: their real topic has them not.")]


class _Manner(NamedTuple):
    """How it is to be done."""

    yes: bool
    who: str | None
    why: str | None
    wait_ms: int | None
    told: "LaneFact | None"
    """What was seen in the real topics."""


def _command(action: Action, does: str) -> Callable[..., None]:
    def act(
        ids: Ids = None,
        halves: Halves = None,
        every: All = False,
        group: Group = None,
        topic: Topic = None,
        older_than: OlderThan = None,
        yes: Yes = False,
        who: Who = None,
        why: Why = None,
        wait: Wait = None,
        delivered: Delivered = False,
        not_delivered: NotDelivered = False,
        config: ConfigFile = None,
        bootstrap_server: BootstrapServer = None,
    ) -> None:
        from checkback_cli.on_call.candidates import TransactionFilter
        from conf import load

        before_ms = None if older_than is None else int(time.time() * 1000) - older_than
        wanted = TransactionFilter(ids or (), halves or (), every, group, topic, before_ms)
        told = seen_in_topics(action, delivered=delivered, not_delivered=not_delivered)
        _act(action, wanted, _Manner(yes, who, why, wait, told), load(config, bootstrap_server))

    act.__doc__ = (
        f"{does}\n\n    Shows them and asks, unless --yes is given; the job judges what was written like any op. Exit "
        "status 0: done; 1: not, or not all; 2: wrong arguments, or nobody to ask; 75: the job has not done it yet."
    )
    return act


commit = _command(Action.COMMIT, "Deliver transactions that are in doubt or parked.")
rollback = _command(Action.ROLLBACK, "Never deliver transactions that are in doubt or parked.")
resume = _command(Action.RESUME, "Have parked transactions checked again, with fresh attempts.")
redeliver = _command(Action.REDELIVER, "Deliver what was committed and its topic did not take; again does no harm.")


def on_a_terminal() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def remark(who: str, why: str, action: Action) -> str:
    """What an op says of who wrote it."""
    return json.dumps({"who": who, "why": why, "by": f"checkback {action}"}, ensure_ascii=False)


def _act(action: Action, wanted: "TransactionFilter", manner: _Manner, settings: "Settings") -> None:
    from checkback.operations.job_in_kafka import JobInKafka
    from checkback.operations.operator_ops import OperatorOps
    from checkback_cli.on_call.waiting import Awaited, Watch
    from conf.secrets_file import own_key

    terminal = on_a_terminal()
    _refuse_arguments(wanted, manner, terminal)
    signing = own_key(settings.access)  # before a lane is settled for a decision that cannot be signed
    kafka, topics = settings.kafka, settings.kafka.topics
    ones = _chosen(action, wanted, settings, topics)
    if not ones:
        typer.echo("None waits that fits: nothing was done.")
        return
    _show(ones)
    if not manner.yes:
        _ask(action, ones)
    said = remark(manner.who or user(), manner.why or _asked_why(), action)
    wait_ms = manner.wait_ms if manner.wait_ms is not None else _WAIT_MS if terminal else 0
    settled = settle_lanes(action, ones, manner.told, kafka)
    tell_settled(action, ones, settled)
    others = {half for _, _, half in (*settled.delivered, *(row for row, _ in settled.unknown))}
    ones = [one for one in ones if one.half not in others]
    awaited = Awaited(ones, action)
    status = WRONG if others else 0
    with reading(kafka) as consumer:
        watch = Watch(consumer, topics) if wait_ms else None
        with OperatorOps(kafka.bootstrap_servers, topics, kafka.python_client, signing) as ops:
            for write in settled.writes:
                ops.write(write.rows, write.action, said, write.fact)
        typer.echo(f"{action}: {len(ones)} written.")
        if watch is not None:
            with JobInKafka(kafka.bootstrap_servers, topics, kafka.python_client) as job:
                watch.wait(awaited, wait_ms / 1000, ops.ends, job.read_to)
            told = _tell(action, ones, awaited, (consumer, topics))  # also where others have gone wrong
            status = status or told
    if status:
        raise typer.Exit(status)


def _refuse_arguments(wanted: "TransactionFilter", manner: _Manner, terminal: bool) -> None:
    named = bool(wanted.ids or wanted.halves)
    if named == wanted.every:
        raise typer.BadParameter("name transactions (TX or --half), or give --all with --group; not both.")
    if wanted.every and not wanted.group:
        raise typer.BadParameter("--all needs --group: it acts on one producer group at a time.")
    if not manner.yes and not terminal:
        raise typer.BadParameter("there is nobody to ask here: give --yes.")
    if not manner.why and not terminal:
        raise typer.BadParameter("there is nobody to ask here: give --why, for those who read it later.")
    if len(manner.why or "") + len(manner.who or "") > REMARK_CHARACTERS:
        raise typer.BadParameter(f"--who and --why together have more than {REMARK_CHARACTERS} characters.")


def _chosen(action: Action, wanted: "TransactionFilter", settings: "Settings", topics: "Topics") -> "list[Candidate]":
    from checkback.operations.half_search import all_in_doubt
    from checkback.operations.parked import ParkedMessages
    from checkback_cli.on_call.candidates import candidates, chosen
    from checkback_cli.terminal.progress import progress

    kafka = settings.kafka
    now_ms = int(time.time() * 1000)
    with (
        reading(kafka) as consumer,
        ParkedMessages(kafka.bootstrap_servers, topics, kafka.python_client) as messages,
        progress() as tell,
    ):
        rows = all_in_doubt(consumer, topics, tell)
        found = candidates(rows.values(), messages.read(), now_ms)
        return chosen(found, action, wanted, lambda half: _neither(consumer, topics, half))


def _neither(consumer: Any, topics: "Topics", half: HalfPosition) -> "Candidate | None":
    """One that no list has: it was never checked, or it is decided. Its story says."""
    from checkback.operations.parked import IN_DOUBT_ACTIONS
    from checkback.operations.story import story_of
    from checkback.operations.story_standing import Stand
    from checkback_cli.on_call.candidates import Candidate

    story = story_of(consumer, topics, half)
    if story is None:
        return None
    undecided = story.standing.stand in {Stand.OPEN, Stand.IN_DOUBT}
    actions = frozenset(IN_DOUBT_ACTIONS if undecided else ())
    since_ms = story.events[0].time_ms if story.events else 0
    known = (story.transaction_id, story.group, story.topic, story.half, since_ms)
    return Candidate(*known, how=str(story.standing), actions=actions)


def _show(ones: "Sequence[Candidate]") -> None:
    from checkback_cli.terminal.listing import show_rows

    names = ("transaction", "group", "topic", "half", "how it waits")
    show_rows(names, ((one.transaction_id, one.group, one.topic, one.half, one.how) for one in ones[:_MOST_SHOWN]))
    if len(ones) > _MOST_SHOWN:
        typer.echo(f"... and {len(ones) - _MOST_SHOWN:,} more.")


def _ask(action: Action, ones: "Sequence[Candidate]") -> None:
    from rich.prompt import Confirm

    what = "this transaction" if len(ones) == 1 else f"these {len(ones):,} transactions"
    if not Confirm.ask(f"{action.capitalize()} {what}?", default=False):
        typer.echo("Nothing was done.")
        raise typer.Exit(WRONG)


def _asked_why() -> str:
    from rich.prompt import Prompt

    said = ""
    while not said.strip():
        said = Prompt.ask("Why? (for those who read it later)")
    return said.strip()[:REMARK_CHARACTERS]


def user() -> str:
    """The name of whoever has typed the command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user has no name
        return "unknown"


def _tell(action: Action, ones: "Sequence[Candidate]", awaited: "Awaited", kafka: "tuple[Any, Topics]") -> int:
    """Say what became of them; the exit status."""
    from checkback_cli.on_call.waiting import stories

    left = [one for one in ones if one.half in awaited.became and one.half not in awaited.refused]
    still = awaited.waiting
    contrary = 0
    if len(left) > _MOST_TOLD:
        typer.echo(f"{len(left):,} ended.")
    else:
        delivers = action in {Action.COMMIT, Action.REDELIVER}
        for one, story in zip(left, stories(*kafka, left, delivers=delivers), strict=True):
            said = awaited.became[one.half] if story is None else str(story.standing)
            typer.echo(printable(f"{one.transaction_id} at {one.half}: {said}"))
            contrary += story is not None and _contrary(action, story)
            still += [one] if story is not None and _waits(action, story) else []
    for half, reason in awaited.refused.items():
        typer.echo(printable(f"{half}: the job has not taken it: {reason}"))
    if awaited.refused or contrary:
        return WRONG
    if still:
        named = ", ".join(one.transaction_id for one in still[:_MOST_TOLD])
        typer.echo(
            printable(f"{len(still):,} not ended yet: {named}. The job does it when it runs: 'checkback status'.")
        )
        return TRY_AGAIN
    return 0


def _waits(action: Action, story: "Story") -> bool:
    """Whether the job has written something of it, and not judged what the operator wrote."""
    from checkback.operations.story_standing import Stand

    return story.standing.stand is Stand.PARKED or (action is not Action.RESUME and story.row is not None)


def _contrary(action: Action, story: "Story") -> bool:
    """Whether somebody else had decided otherwise before."""
    from checkback.operations.story_standing import Stand, decision

    if action is Action.COMMIT:
        return story.standing.stand is Stand.ROLLED_BACK
    if action is not Action.ROLLBACK:
        return False
    op = decision(story.events)
    return story.standing.stand is Stand.DELIVERED or (op is not None and op.action == Action.COMMIT)


def seen_in_topics(action: Action, *, delivered: bool, not_delivered: bool) -> LaneFact | None:
    """What the operator has seen in the real topics.

    Raises:
        typer.BadParameter: both, or what is of no use for the action.
    """
    if delivered and not_delivered:
        raise typer.BadParameter("give --delivered or --not-delivered, not both.")
    if delivered and action is not Action.COMMIT:
        raise typer.BadParameter("what is delivered is committed: 'checkback commit --delivered'.")
    if not_delivered and action is Action.REDELIVER:
        raise typer.BadParameter("what is delivered again was committed before: it needs no --not-delivered.")
    if delivered:
        return LaneFact.DELIVERED
    return LaneFact.SETTLED if not_delivered else None


def settle_lanes(
    action: Action, ones: "Sequence[Candidate]", told: LaneFact | None, kafka: "KafkaSettings"
) -> "LanesSettled":
    """Settle the lanes of those that name one, and say what may be written.

    Raises:
        KafkaUnreachableError, ConfigurationError: a lane cannot be settled; nothing is written.
    """
    from checkback.operations.lanes import KafkaLanes, Wish, settled

    look = KafkaLanes(kafka.bootstrap_servers, kafka.topics, kafka.python_client, kafka.sink_client)
    return settled(action, [Wish(one.row_of_op, one.contested) for one in ones], look, told)


def tell_settled(action: Action, ones: "Sequence[Candidate]", settled: "LanesSettled") -> None:
    """Print of which something else is written than was asked for, and of which nothing."""
    topics = {one.half: one.topic for one in ones}

    def unknown(row: "Row", why: str) -> str:
        where = f"look for it in {topics[row[2]]}, then say --not-delivered, or 'checkback commit --delivered'"
        return f"nothing is written. Nobody can know whether it was delivered, since {why}: {where}"

    def delivered(_: "Row", __: str) -> str:
        return f"no {action}: its lane has delivered it, so that is committed"

    _several(settled.unknown, unknown)
    _several([(row, "") for row in settled.delivered], delivered)


def _several(rows: "Sequence[tuple[Row, str]]", said: "Callable[[Row, str], str]") -> None:
    for row, why in rows[:_MOST_TOLD]:
        typer.echo(printable(f"{row[0]} at {row[2]}: {said(row, why)}."))
    if len(rows) > _MOST_TOLD:
        typer.echo(f"So it is with {len(rows) - _MOST_TOLD:,} more.")
