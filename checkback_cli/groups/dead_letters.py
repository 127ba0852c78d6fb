"""What ``checkback dlq`` does."""

from collections.abc import Iterable, Iterator, Sequence
from time import monotonic
from typing import Any, NamedTuple

import typer
from rich.prompt import Confirm

from checkback.consumer.clients.base import Connection
from checkback.consumer.clients.group_client import Clients
from checkback.consumer.listener import ReceivedMessage
from checkback.consumer.retries.dead_letter_topic import DeadLetterTopic, LetterCount, ListedLetter
from checkback.consumer.retries.dead_letters import (
    Choice,
    DeadLetter,
    LetterFilter,
    LetterPlace,
    Letters,
    Mark,
    To,
    chosen,
    said_by,
)
from checkback.consumer.retries.resending import Became, Outcome, Resend, Resending, transactional_id
from checkback.consumer.retry import OwnTopics, as_it_was
from checkback.exceptions import OperatorError
from checkback.kafka.kafka_python.library import KafkaConsumer
from checkback.kafka.record_ranges import Tell
from checkback.kafka.topic_reading import partitions_of
from checkback.operations.times import said_time
from checkback.wire.printable import printable
from checkback.wire.protocol import ID, Topics
from checkback_cli.on_call.decide import on_a_terminal, user
from checkback_cli.on_call.read import spelled
from checkback_cli.terminal.listing import show_objects, show_pairs, show_rows
from checkback_cli.terminal.options import WRONG
from checkback_cli.terminal.progress import progress
from checkback_cli.terminal.reading import reading
from conf import KafkaSettings

_NOTHING = "-"
_COUNTED_OFFSETS = 10_000
_COUNTED_SECONDS = 10.0
_MOST_SHOWN = 50
_NAMES = ("place", "id", "from", "sent", "died", "tries", "why", "bytes")


class Listing(NamedTuple):
    """Which letters are to be listed."""

    group: str
    topic: str | None
    """That they came from."""
    resent: bool
    """Also those that were resent."""
    most: int


class Manner(NamedTuple):
    """How letters are to be resent."""

    to: To
    ask: bool
    who: str | None
    as_json: bool


def list_groups(kafka: KafkaSettings, *, as_json: bool) -> None:
    """Print the groups that have dead letters, and how many wait; those of which none wait are left out."""
    topics = kafka.topics
    with reading(kafka) as consumer, progress() as tell:
        prefix = topics.dead("")
        groups = sorted(name.removeprefix(prefix) for name in consumer.topics() if name.startswith(prefix))
        rows = [row for row in count_letters(consumer, topics, groups, tell) if not row[1].is_none]
    if as_json:
        keys = ("group", "letters", "at_most", "newest_ms", "topic")
        show_objects(dict(zip(keys, (group, *counted, name), strict=True)) for group, counted, name in rows)
        return
    names = ("group", "letters", "newest", "topic")
    show_rows(names, ((group, said_count(counted), _time(counted.newest_ms), name) for group, counted, name in rows))


def count_letters(
    consumer: KafkaConsumer, topics: Topics, groups: Iterable[str], tell: Tell
) -> list[tuple[str, LetterCount, str]]:
    """How many letters of each group wait, and in which topic; after 10 s it counts no more, and says how many at most.

    Raises:
        OperatorError: a group has no topic of dead letters.
    """
    until = monotonic() + _COUNTED_SECONDS
    rows = []
    for group in groups:
        name = topics.dead(group)
        most = _COUNTED_OFFSETS if monotonic() < until else 0
        rows.append((group, DeadLetterTopic(consumer, name, tell).count(most), name))
    return rows


def said_count(counted: LetterCount) -> str:
    """How many letters there are, for people."""
    return f"at most {counted.offsets}" if counted.letters is None else str(counted.letters)


def list_letters(kafka: KafkaSettings, listing: Listing, *, as_json: bool) -> None:
    """Print a group's letters, the newest first."""

    def wanted(one: ListedLetter) -> bool:
        return listing.topic in {None, one.letter.topic} and (listing.resent or one.mark is None)

    with reading(kafka) as consumer, progress() as tell:
        found = DeadLetterTopic(consumer, _own(kafka, listing.group).dead, tell).newest(wanted, listing.most)
    if as_json:
        show_objects(_object(listing.group, *one) for one in found.listed)
    else:
        names = (*_NAMES, *(["resent"] if listing.resent else []))
        show_rows(names, (_cells(one.letter) + _marked(one, shown=listing.resent) for one in found.listed), by="why")
    if found.more:
        typer.echo("There are more: --limit, --topic.", err=True)


def show_letter(kafka: KafkaSettings, group: str, place: LetterPlace, most_bytes: int, *, as_json: bool) -> None:
    """Print all of one letter.

    Raises:
        OperatorError: there is none at that place.
    """
    with reading(kafka) as consumer, progress() as tell:
        topic = DeadLetterTopic(consumer, _own(kafka, group).dead, tell)
        lies = topic.read(place)
        letter = said_by(lies)
        if isinstance(letter, Mark):
            raise OperatorError(f"{place} is not a dead letter: it says that the one at {letter.letter} was resent.")
        mark = topic.find([place]).marks.get(place)
    was = as_it_was(lies)
    headers = [one for one in was.headers if one[0] != ID]
    if as_json:
        content = {"key": spelled(was.key), "value": spelled(was.value)}
        show_objects([{**_object(group, letter, mark), **content, "headers": [[n, spelled(v)] for n, v in headers]}])
        return
    known = zip(_NAMES, _cells(letter), strict=True)
    show_pairs([("group", group), *known, ("resent", _said(mark) or _NOTHING), *_content(was, headers, most_bytes)])


def content_said(content: bytes | None, most_bytes: int) -> str:
    """Bytes for people: as text where they are such, else in hex; and how many there are where they are cut."""
    if content is None:
        return "null"
    try:
        text, shown = content.decode(), most_bytes
    except UnicodeDecodeError:
        text, shown = content.hex(" "), max(0, 3 * most_bytes - 1)
        kind = "hex: "
    else:
        kind = ""
    cut = f" ... ({len(content):,} bytes)" if len(text) > shown else ""
    return f"{kind}{text[:shown]}{cut}"


def resend_letters(kafka: KafkaSettings, group: str, wanted: LetterFilter, manner: Manner) -> None:
    """Say what is to be resent, ask, do it, and say what became of each.

    Raises:
        OperatorError: one that is named is not there, or a topic that is needed is not.
        typer.Exit: not all of them were resent.
    """
    if manner.ask and not on_a_terminal():
        raise typer.BadParameter("there is nobody to ask here: give --yes.")
    topics = kafka.topics
    resend = Resend(_own(kafka, group), topics, manner.to, manner.who or user())
    with reading(kafka) as consumer:
        with progress() as tell:
            found = DeadLetterTopic(consumer, resend.own.dead, tell).find(wanted.places, wanted.topic)
        choice = chosen(found, wanted)
        _tell_passed_over(choice, named=bool(wanted.places))
        if not choice.letters:
            typer.echo("None is left to be resent: nothing was done.", err=manner.as_json)
            return
        _refuse_without_topics(consumer, resend)
        if not manner.as_json:
            _show(choice.letters)
        typer.echo(_meaning(resend, choice.letters), err=True)
        if manner.ask and not Confirm.ask(f"Resend {_number(choice.letters)}?", default=False):
            typer.echo("Nothing was done.")
            raise typer.Exit(WRONG)
        outcomes: list[Outcome] = []
        try:
            outcomes += _outcomes(kafka, consumer, resend, found, choice.letters)
        finally:
            _show_outcomes(outcomes, manner)
    if any(one.became in {Became.GONE, Became.REFUSED} for one in outcomes):
        raise typer.Exit(WRONG)


def _outcomes(
    kafka: KafkaSettings, consumer: KafkaConsumer, resend: Resend, found: Letters, letters: Sequence[DeadLetter]
) -> Iterator[Outcome]:
    group = resend.own.group
    connection = Connection(kafka.bootstrap_servers, group, "checkback-dlq", kafka.sink_client)
    name = transactional_id(resend.topics, group)
    partitions = {topic: sorted(consumer.partitions_for_topic(topic)) for topic in {one.topic for one in letters}}
    with (
        reading(kafka, "read_uncommitted") as uncommitted,
        progress() as tell,
        Resending(
            lambda: Clients().sender(connection, name),
            DeadLetterTopic(consumer, resend.own.dead),
            uncommitted,
            found,
            resend,
        ) as resending,
    ):
        for number, outcome in enumerate(resending.run(letters, partitions), 1):
            tell("dead letters to be resent", number, len(letters))
            yield outcome


def _number(letters: Sequence[DeadLetter]) -> str:
    return "this one" if len(letters) == 1 else f"these {len(letters):,}"


def _own(kafka: KafkaSettings, group: str) -> OwnTopics:
    return OwnTopics.of(kafka.topics, group)


def _cells(letter: DeadLetter) -> tuple[object, ...]:
    known = bool(letter.origin)
    return (
        *(str(letter.place), letter.first_id or _NOTHING, letter.origin or _NOTHING),
        *(said_time(letter.origin_ms) if known else _NOTHING, said_time(letter.died_ms)),
        *(letter.tries if known else _NOTHING, letter.reason or _NOTHING, letter.size),
    )


def _marked(one: ListedLetter, *, shown: bool) -> tuple[object, ...]:
    return (_said(one.mark) or _NOTHING,) if shown else ()


def _said(mark: Mark | None) -> str:
    return "" if mark is None else f"{said_time(mark.time_ms)} to {mark.to} by {mark.by or 'somebody'}"


def _time(ms: int | None) -> str:
    return _NOTHING if ms is None else said_time(ms)


def _object(group: str, letter: DeadLetter, mark: Mark | None) -> dict[str, Any]:
    """A letter for programs; what it does not say is null."""
    known = bool(letter.origin)
    resent = None if mark is None else {"time_ms": mark.time_ms, "to": mark.to, "by": mark.by}
    return {
        "group": group,
        "place": str(letter.place),
        "id": letter.first_id or None,
        "origin": letter.origin or None,
        "origin_ms": letter.origin_ms if known else None,
        "died_ms": letter.died_ms,
        "tries": letter.tries if known else None,
        "reason": letter.reason,
        "bytes": letter.size,
        "resent": resent,
    }


def _content(
    was: ReceivedMessage, headers: Sequence[tuple[str, bytes | None]], most_bytes: int
) -> Iterator[tuple[str, str]]:
    for name, content in headers:
        yield "header", f"{name}: {content_said(content, most_bytes)}"
    yield "key", content_said(was.key, most_bytes)
    yield "value", content_said(was.value, most_bytes)


def _tell_passed_over(choice: Choice, *, named: bool) -> None:
    if named:
        for letter, mark in choice.before:
            typer.echo(
                printable(f"{letter.place} was resent {_said(mark)}: passed over. --again resends it."), err=True
            )
    elif choice.before:
        typer.echo(f"{len(choice.before):,} were resent before: passed over.", err=True)
    if choice.without_origin:
        typer.echo(f"{len(choice.without_origin):,} do not say where they come from: passed over.", err=True)


def _refuse_without_topics(consumer: KafkaConsumer, resend: Resend) -> None:
    own = resend.own
    needed = (own.later, own.retry) if resend.to is To.RETRY else ()
    missing = [name for name in needed if not partitions_of(consumer, name)]
    if missing:
        raise OperatorError(
            f"Kafka has no topic {' and '.join(missing)}, by which a group gets messages again: run 'checkback topics "
            "create', and start a consumer of the group once. Nothing was done."
        )


def _show(letters: Sequence[DeadLetter]) -> None:
    show_rows(_NAMES, (_cells(letter) for letter in letters[:_MOST_SHOWN]), by="why")
    if len(letters) > _MOST_SHOWN:
        typer.echo(f"... and {len(letters) - _MOST_SHOWN:,} more.")


def _meaning(resend: Resend, letters: Sequence[DeadLetter]) -> str:
    if resend.to is To.RETRY:
        return (
            f"They go to the group {resend.own.group} alone, through {resend.own.later}: the job delivers them to "
            f"{resend.own.retry} when it runs, and the group gets them as they were the first time."
        )
    names = ", ".join(sorted({letter.topic for letter in letters}))
    return printable(
        f"They are written to the end of {names}, and EVERY group that reads it gets them again, also those that have "
        "had them: at a new offset, with the same cb-id, by which an inbox passes over them."
    )


def _show_outcomes(outcomes: Sequence[Outcome], manner: Manner) -> None:
    if manner.as_json:
        show_objects(
            {
                "place": str(one.letter.place),
                "id": one.letter.first_id or None,
                "origin": one.letter.origin,
                "to": str(manner.to),
                "became": str(one.became),
                "why": one.why,
            }
            for one in outcomes
        )
        return
    told = [one for one in outcomes if one.became is not Became.RESENT]
    for one in told[:_MOST_SHOWN]:
        typer.echo(printable(f"{one.letter.place} {one.became}{f': {one.why}' if one.why else ''}"))
    typer.echo(f"{len(outcomes) - len(told):,} resent.")
