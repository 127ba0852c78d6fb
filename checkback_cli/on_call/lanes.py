"""What an operator's command says of half messages whose producer may have delivered them itself."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from checkback.wire.delivered import LaneFact
from checkback.wire.printable import printable
from checkback.wire.protocol import Action

if TYPE_CHECKING:
    from checkback.operations.lanes import LanesSettled
    from checkback.operations.operator_ops import Row
    from checkback_cli.on_call.candidates import Candidate
    from conf import KafkaSettings

_MOST_TOLD = 10
Delivered = Annotated[
    bool,
    typer.Option("--delivered", help="Their real topic has them, as was looked: of those of which nobody can know."),
]
NotDelivered = Annotated[bool, typer.Option("--not-delivered", help="Likewise: their real topic has them not.")]


def seen(action: Action, *, delivered: bool, not_delivered: bool) -> LaneFact | None:
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


def settle(
    action: Action, ones: "Sequence[Candidate]", told: LaneFact | None, kafka: "KafkaSettings"
) -> "LanesSettled":
    """Settle the lanes of those that name one, and say what may be written.

    Raises:
        KafkaUnreachableError, ConfigurationError: a lane cannot be settled; nothing is written.
    """
    from checkback.operations.lanes import KafkaLanes, Wish, settled

    look = KafkaLanes(kafka.bootstrap_servers, kafka.topics, kafka.python_client, kafka.sink_client)
    return settled(action, [Wish(one.row_of_op, one.contested) for one in ones], look, told)


def tell(action: Action, ones: "Sequence[Candidate]", settled: "LanesSettled") -> None:
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
