"""The steps of a gateway's client at which death or a long sleep would be worst."""

from enum import StrEnum


class Step(StrEnum):
    """Where a client is with an order."""

    UNANSWERED = "a gateway has not answered in time, before the half message is sent to the other one"
    SENT_AGAIN = "after the other gateway has taken it, before the database commits"
    POSTED = "after the half message, before the database commits"
    COMMITTED = "after the database has committed, before the end"
