"""``checkback tail``."""

import textwrap
from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from checkback.operations.times import said_time
from checkback.wire.protocol import HalfPosition
from checkback_cli.terminal.options import AsJson, BootstrapServer, ConfigFile, Group, Topic

if TYPE_CHECKING:
    from checkback.operations.story_events import StoryEvent

_REMEMBERED = 100_000
"""Half messages whose topic and group are known; records that do not name them are about one of these."""
_WHAT = 20
_INDENT = " " * 15
"""Deeper than what happened begins: a line that begins so belongs to the one above."""


def tail(
    group: Group = None,
    topic: Topic = None,
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="Stop after this number of lines; 0: never.")] = 0,
    as_json: AsJson = False,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Print what happens from now on, a line for each record, until Ctrl-C: half messages, ops, checks, what is parked.

    Of transactions only, never their content. Deliveries are in the real topics: 'checkback read'. With --topic, ops
    and checks of half messages that were written before are left out: they do not name their topic.
    """
    from checkback.kafka.topic_reading import own_topic, records_as_they_come
    from checkback.operations.story_events import event_of
    from checkback.signals import stop_on_signals
    from checkback_cli.terminal.listing import show_objects
    from checkback_cli.terminal.reading import AwayNotice, reading
    from conf import load

    kafka = load(config, bootstrap_server).kafka
    topics = kafka.topics
    names = (topics.half, topics.op, topics.check, topics.status, topics.parked, topics.rejected)
    stopping = stop_on_signals()
    fitting = Fitting(group, topic)
    with reading(kafka) as consumer:
        for name in names:
            own_topic(consumer, name)
        shown, console = 0, Console()
        width = console.width if console.is_terminal else None
        notice = AwayNotice(consumer)
        for record in records_as_they_come(consumer, names, stopping.is_set, new=True, idle=notice.look):
            event = event_of(record, topics)
            if event is None or (known := fitting.known(event)) is None:
                continue
            if as_json:
                show_objects([event_object(known)])
            else:
                typer.echo(line(known) if width is None else for_people(line(known), width))
            shown += 1
            if shown == count:
                return


class Fitting:
    """Which events are asked for. Remembers group and topic of half messages, since most records name no topic."""

    def __init__(self, group: str | None, topic: str | None, most: int = _REMEMBERED) -> None:
        self._group = group
        self._topic = topic
        self._most = most
        self._seen: OrderedDict[HalfPosition, tuple[str, str, str]] = OrderedDict()

    def known(self, event: "StoryEvent") -> "StoryEvent | None":
        """The event with id, group and topic of its half message, as far as they are known; None: not asked for."""
        if event.half is not None:
            event = self._named(event, event.half)
        fits = self._group in {None, event.group} and self._topic in {None, event.topic}
        return event if fits else None

    def _named(self, event: "StoryEvent", half: HalfPosition) -> "StoryEvent":
        transaction_id, group, topic = self._seen.get(half, ("", "", ""))
        if not (event.transaction_id and event.group and event.topic):
            return event._replace(
                transaction_id=event.transaction_id or transaction_id,
                group=event.group or group,
                topic=event.topic or topic,
            )
        self._seen[half] = event.transaction_id, event.group, event.topic
        if len(self._seen) > self._most:
            self._seen.popitem(last=False)
        return event


def line(event: "StoryEvent") -> str:
    """One line: time, what, and whose."""
    from checkback.operations.story_events import said
    from checkback.wire.printable import printable

    remark = " ".join(part for part in (event.who, event.remark or event.reason) if part)
    half = "" if event.half is None else str(event.half)
    parts = (f"{said_time(event.time_ms)[11:]}Z", said(event), event.transaction_id, event.group, half, remark)
    return "\t".join(printable(part) for part in _without_last_empty(parts))


def for_people(said: str, width: int) -> str:
    """The same line for a terminal: what does not fit stands below, indented; no word is broken."""
    time, what, *others = said.split("\t")
    text = "  ".join((time, f"{what:<{_WHAT}}", *others))
    return textwrap.fill(text, width, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False)


def event_object(event: "StoryEvent") -> dict[str, Any]:
    """An event for programs, without what is empty: most fields are, of most events."""
    from checkback.operations.story_events import said

    given = {name: value for name, value in event._asdict().items() if value or name == "time_ms"}
    half = {} if event.half is None else {"half": str(event.half)}
    return {**given, **half, "what": said(event)}


def _without_last_empty(parts: Iterable[str]) -> list[str]:
    found = list(parts)
    while found and not found[-1]:
        found.pop()
    return found
