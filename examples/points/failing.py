"""The points service again, in a process that fails now and then. No application needs this: it is what we show."""

import json
from contextvars import ContextVar
from dataclasses import replace

from sqlalchemy import event
from sqlalchemy.orm import Session

from checkback.consumer import ConsumeResult, ReceivedMessage
from examples.points import service

ONE_IN = 10  # one order in so many fails, at its first try

_doomed: ContextVar[bool] = ContextVar("doomed", default=False)


def book(message: ReceivedMessage) -> ConsumeResult:
    """Book it, unless this is the first try of one that fails: half of them say *later*, half break in the midst."""
    order = json.loads(message.value or b"")["order"]
    fails = message.tries == 0 and order % ONE_IN == 0
    breaks = fails and order % (2 * ONE_IN) == 0
    if fails and not breaks:
        return ConsumeResult.LATER
    _doomed.set(breaks)
    return service.book(message)


@event.listens_for(Session, "before_commit")
def break_down(_session: Session) -> None:
    """Everything is written, and nothing is committed."""
    if _doomed.get():
        raise ConnectionError("The database has gone away.")


if __name__ == "__main__":
    # RocketMQ's pauses begin with 10 s; the example is to be short
    service.serve(book, replace(service.SETTINGS, retry_levels=(1.0,)))
