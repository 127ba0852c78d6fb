"""``checkback show``."""

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from checkback.operations.times import said_duration, said_time
from checkback.wire.protocol import HalfPosition
from checkback_cli.terminal.options import AsJson, BootstrapServer, ConfigFile, age, place_of_half
from checkback_cli.terminal.reading import reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from checkback.kafka.record_ranges import Tell
    from checkback.operations.half_search import Search
    from checkback.operations.in_doubt import InDoubt
    from checkback.operations.story import Story
    from conf import Settings

_MOST_STORIES = 10
_NAMES = ("time", "after", "what", "who", "why", "record")


def show(
    transaction_id: Annotated[
        str | None, typer.Argument(help="Its id, or the beginning of it (4 characters or more).", metavar="TX")
    ] = None,
    half: Annotated[
        HalfPosition | None,
        typer.Option(
            parser=place_of_half,
            metavar="PARTITION:OFFSET",
            help="Place of its half message: at once, and of one where several have an id.",
            show_default=False,
        ),
    ] = None,
    since: Annotated[
        int, typer.Option(parser=age, metavar="AGE", help="Look for the id in half messages of this time.")
    ] = "1d",  # type: ignore[assignment]  # typer parses the default, too
    records: Annotated[
        int, typer.Option(min=1, help="Records of one partition that are looked through for the story, about.")
    ] = 200_000,
    as_json: AsJson = False,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Tell a transaction's whole story: half message, ops, checks, answers, decision, delivery, operators' ops.

    An id is looked for in cb.status and cb.parked, then in cb.half from its end back to --since. Says where there may
    be more that it has not looked at. Exit status 0: found; 1: not.
    """
    from checkback.exceptions import OperatorError
    from checkback.kafka.record_ranges import ReadLimits
    from checkback.kafka.topic_reading import own_topic
    from checkback.operations.story import story_of
    from checkback_cli.terminal.listing import show_objects
    from checkback_cli.terminal.progress import progress
    from conf import load

    if (transaction_id is None) == (half is None):
        raise typer.BadParameter("name a transaction, or give --half.")
    settings = load(config, bootstrap_server)
    kafka, topics = settings.kafka, settings.kafka.topics
    with (
        reading(kafka) as consumer,
        progress() as tell,
    ):
        own_topic(consumer, topics.half)
        halves = [(half, None)] if half else _halves(consumer, topics, str(transaction_id), since, tell)
        found = [story_of(consumer, topics, place, ReadLimits(records), tell, row=row) for place, row in halves]
    stories = [with_tables(story, settings) for story in found if story is not None]
    if not stories:
        raise OperatorError(f"Kafka has no record of a half message at {', '.join(str(place) for place, _ in halves)}.")
    if as_json:
        show_objects(map(story_object, stories))
        return
    for story in stories:
        show_story(story)


def show_story(story: "Story") -> None:
    """Print it: what it is and how it stands, its events by time, and what was not looked at."""
    from rich.console import Console

    from checkback.wire.printable import printable
    from checkback_cli.terminal.listing import show_pairs, show_rows

    show_pairs(head(story))
    show_rows(_NAMES, rows(story))
    for note in story.not_looked_at:
        Console(stderr=True, soft_wrap=True).print(printable(f"Not looked at: {note}."), highlight=False, markup=False)


def head(story: "Story") -> "Iterator[tuple[str, str]]":
    """What it is, and how it stands."""
    yield "transaction", story.transaction_id
    yield "half message", str(story.half)
    yield "group", story.group
    yield "topic", story.topic
    if story.lane:
        yield "lane", story.lane
    yield "stands", str(story.standing)
    if story.row is not None and story.row.next_check_ms:
        yield "next check", f"{said_time(story.row.next_check_ms)} UTC"


def rows(story: "Story") -> "Iterator[tuple[str, ...]]":
    """Its events for a table; times in UTC, and after the first of them."""
    from checkback.operations.story_events import said

    for event in story.events:
        after = event.time_ms - story.events[0].time_ms
        yield (
            *(said_time(event.time_ms), f"+{said_duration(max(0, after))}", said(event)),
            *(event.who, event.remark or event.reason, event.place),
        )


def story_object(story: "Story") -> dict[str, Any]:
    """The same for programs."""
    from checkback_cli.on_call.tail import event_object

    return {
        "transaction_id": story.transaction_id,
        "group": story.group,
        "topic": story.topic,
        "half": str(story.half),
        "lane": story.lane,
        "stands": story.standing.stand,
        "why": story.standing.why,
        "in_doubt": None if story.row is None else {**story.row._asdict(), "half": str(story.row.half)},
        "events": [event_object(event) for event in story.events],
        "not_looked_at": list(story.not_looked_at),
    }


def with_tables(story: "Story", settings: "Settings") -> "Story":
    """The story with a note where rules send the topic's messages to tables: those are not looked at."""
    from fnmatch import fnmatchcase

    rule = next((rule for rule in settings.sinks.rules if fnmatchcase(story.topic, rule.topic)), None)
    tables = [name for name in rule.to if name in settings.sinks.tables] if rule else []
    if not tables:
        return story
    return story._replace(not_looked_at=(*story.not_looked_at, f"the tables that it goes to: {', '.join(tables)}"))


def _halves(
    consumer: Any, topics: Any, transaction_id: str, since_ms: int, tell: "Tell"
) -> "list[tuple[HalfPosition, InDoubt | None]]":
    from checkback.exceptions import OperatorError
    from checkback.operations.half_search import search
    from checkback_cli.on_call.candidates import SHORTEST, TOO_SHORT, ambiguous

    now_ms = int(time.time() * 1000)
    found = search(consumer, topics, transaction_id, now_ms, max(0, now_ms - since_ms), tell)
    if not found.found:
        looked_at = f"half messages of the last {said_duration(since_ms)}, {topics.status} and {topics.parked}"
        named, short = (" or begins so", "") if len(transaction_id) >= SHORTEST else ("", f" {TOO_SHORT}")
        raise OperatorError(
            f"No id is {transaction_id}{named} in {looked_at}.{short} --since looks further back; --half PLACE "
            "finds it at once."
        )
    if not found.found[0].exact and ambiguous(found.found):
        ids = sorted({one.transaction_id for one in found.found})
        more = "" if len(ids) <= _MOST_STORIES else ", ..."
        some = ", ".join(ids[:_MOST_STORIES])
        raise OperatorError(f"{transaction_id} begins several ids: {some}{more}. Give more of it.")
    if len(found.found) > _MOST_STORIES:
        raise OperatorError(f"{_several(transaction_id, found)} Name one: --half PARTITION:OFFSET.")
    return [(one.half, one.row) for one in found.found]


def _several(transaction_id: str, found: "Search") -> str:
    shown = ", ".join(f"{one.half} (group {one.group})" for one in found.found[:_MOST_STORIES])
    return f"{transaction_id} is the id of {len(found.found)} half messages in {found.where}: {shown}, ..."
