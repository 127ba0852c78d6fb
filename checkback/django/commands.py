"""The commands of manage.py; ``management/commands`` has them where Django looks."""

import argparse
import re
from datetime import timedelta
from importlib import import_module
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DEFAULT_DB_ALIAS

from checkback.consumer import ConsumerSettings, StartAt
from checkback.dbapi.states import ASK_LIMIT
from checkback.django.configuration import configuration
from checkback.django.inbox import DjangoInbox, prune_inbox
from checkback.django.transaction_log import DjangoTransactionLog
from checkback.exceptions import CheckbackError
from checkback.signals import stop_on_signals

_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_WAIT_SECONDS = 0.5


def age(said: str) -> timedelta:
    """``14d``, ``36h``."""
    found = re.fullmatch(r"(\d{1,6})([dhms])", said)
    if not found or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{said!r} is no age: a number and d, h, m or s, as in 30d.")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


class PruneCommand(BaseCommand):
    """``manage.py checkback_prune --older-than 30d``."""

    help = (
        "Deletes old rows of the transaction log and the inbox. A transaction that is checked after its row is gone is "
        "rolled back, and a message that comes again has its effect again: 30d fits the job's default settings."
    )

    def add_arguments(self, parser: Any) -> None:
        """See ``--help``."""
        parser.add_argument("--older-than", type=age, required=True, help="30d, 720h: with d, h, m or s")
        parser.add_argument(
            "--ask-limit", type=age, default=ASK_LIMIT,
            help=f"for how long the job asks, where its limits are shorter than the defaults ({ASK_LIMIT.days}d)",
        )  # fmt: skip
        parser.add_argument("--table", choices=["log", "inbox"], help="one of them only; without it both")
        parser.add_argument("--database", help="an alias; without it all of CHECKBACK['DATABASES']")

    def handle(
        self, *, older_than: timedelta, ask_limit: timedelta, table: str | None, database: str | None, **_: Any
    ) -> None:
        """Delete them, and say how many."""
        if table != "inbox" and older_than < ask_limit:
            raise CommandError(
                f"--older-than is {older_than}, and a job may ask about a transaction for {ask_limit}: one that is "
                "asked about when its row is gone is rolled back, though it has committed. Nothing was deleted. Give "
                "more; or, where the job's transactions.age_limit and transactions.parked_ttl are shorter than the "
                "defaults, say for how long it asks: --ask-limit 2d. For the inbox alone: --table inbox."
            )
        try:
            for alias in [database] if database else configuration().databases:
                rows = []
                if table != "inbox":
                    rows.append(f"{DjangoTransactionLog([alias]).prune(older_than)} of the transaction log")
                if table != "log":
                    rows.append(f"{prune_inbox(alias, older_than)} of the inbox")
                self.stdout.write(f"{alias}: deleted {', '.join(rows)}.")
        except CheckbackError as error:
            raise CommandError(str(error)) from error


class ConsumeCommand(BaseCommand):
    """``manage.py checkback_consume shop.consumers:give_points --group points --topic orders``."""

    help = (
        "Consumes topics with a function that gets each message, in a database transaction with the inbox: its effect "
        "happens once. Ends with Ctrl-C or SIGTERM."
    )

    def add_arguments(self, parser: Any) -> None:
        """See ``--help``."""
        parser.add_argument("function", metavar="MODULE:FUNCTION")
        parser.add_argument("--group", required=True, help="the consumer group")
        parser.add_argument("--topic", action="append", required=True, dest="topics", help="may be given several times")
        parser.add_argument("--database", default=DEFAULT_DB_ALIAS, help="in which the function works")
        parser.add_argument("--concurrency", type=int, default=4, help="threads, each with a connection (4)")
        parser.add_argument(
            "--start-at", choices=[StartAt.FIRST.value, StartAt.LAST.value], default=StartAt.LAST.value,
            help="where a group that is new begins in a topic (last: with what comes from now on)",
        )  # fmt: skip

    def handle(self, *, function: str, group: str, topics: list[str], database: str, **options: Any) -> None:
        """Consume until it is told to end."""
        try:
            from checkback.consumer import PushConsumer  # noqa: PLC0415  (the other command does without)
        except CheckbackError as error:
            raise CommandError(str(error)) from error
        given = configuration()
        stopping = stop_on_signals()
        settings = ConsumerSettings(concurrency=options["concurrency"], start_at=StartAt(options["start_at"]))
        try:
            with PushConsumer(
                given.bootstrap_servers,
                group,
                DjangoInbox(group, using=database).handler(_function(function)),
                topics,
                settings=settings,
                topics=given.topics,
                kafka_options=given.consumer_options,
            ) as consumer:
                self.stdout.write(f"Consuming {', '.join(topics)} as {group}. Ctrl-C ends it.")
                while not stopping.is_set() and not consumer.wait(_WAIT_SECONDS):
                    pass
        except CheckbackError as error:
            raise CommandError(str(error)) from error


def _function(named: str) -> Any:
    module, _, name = named.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise CommandError(f"{named!r} is not MODULE:FUNCTION of this project: {error}") from error
    if not callable(found):
        raise CommandError(f"{named!r} is not a function.")
    return found
