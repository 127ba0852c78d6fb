"""The shop again, in a process that dies when a request says so. No application needs this: it is what we show."""

import os
import signal
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

from fastapi import Request, Response
from sqlalchemy import event
from sqlalchemy.orm import Session

from examples.shop.web import app

BEFORE, AFTER = "before its database commit", "between its database commit and the op"

__all__ = ["AFTER", "BEFORE", "app"]

_death: ContextVar[str] = ContextVar("death", default="")


@app.middleware("http")
async def remember(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
    """Keep what the request says until its transaction gets there."""
    _death.set(request.headers.get("die", ""))
    return await answer(request)


@event.listens_for(Session, "before_commit")
def die_before(_session: Session) -> None:
    """Half messages are in Kafka, the database has nothing."""
    _die_if(BEFORE)


@event.listens_for(Session, "after_commit")
def die_after(_session: Session) -> None:
    """The database has it, and nobody has told Kafka."""
    _die_if(AFTER)


def _die_if(moment: str) -> None:
    if _death.get() == moment:
        os.kill(os.getpid(), signal.SIGKILL)  # as a crash does: nothing is closed, flushed or handled
