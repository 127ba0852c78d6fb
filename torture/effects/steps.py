"""The steps of a consumer at which its death would be worst."""

from enum import StrEnum


class Step(StrEnum):
    """Where a consumer is; first a message's way, then what happens beside it."""

    MESSAGES_READ = "messages read, none handed out"
    LISTENER_BEGUN = "in the listener, before the database transaction"
    TRANSACTION_BEGUN = "in the database transaction, before the inbox's row"
    INBOX_ROW = "after the inbox's row, before the effect"
    BOOKED = "after the effect, before the database's commit"
    COMMITTING = "while the database commits"
    DATABASE_COMMITTED = "after the database's commit, before the listener returns"
    SUCCESS_NOTED = "after the listener's success, before it is stored"

    STORING = "before an offset is stored"
    STORE_UNDER_WAY = "while an offset is being stored"
    STORED = "after an offset was stored"

    SENDING_BACK = "sending back: before the Kafka transaction"
    RECORDS_WRITTEN = "sending back: after the records, before the offsets"
    OFFSETS_ADDED = "sending back: after the offsets, before the commit"
    COMMIT_UNDER_WAY = "sending back: while it is being committed"
    SENT_BACK = "sending back: after the commit"

    ASSIGNED = "partitions assigned, not begun"
    BEGUN = "partitions begun, nothing read"
    LEAVING = "a rebalance takes partitions, what is in hand has not ended"
    LEAVING_UNSTORED = "a rebalance takes partitions, before they are stored"
    LEFT = "a rebalance takes partitions, after they were stored"

    CLOSING = "on close, before it is stored"
    CLOSED = "on close, after it was stored"

    BEGUN_ALONE = "a message counted as begun alone, and not handed out"


REBALANCING = frozenset({Step.ASSIGNED, Step.BEGUN, Step.LEAVING, Step.LEAVING_UNSTORED, Step.LEFT})
"""Steps to which a consumer comes when it, or another one, joins."""
CLOSES = frozenset({Step.CLOSING, Step.CLOSED})
"""Steps to which it comes when it is told to end."""
LOCKS = frozenset({Step.INBOX_ROW, Step.BOOKED})
"""Steps at which it holds SQLite's one lock: whoever stops there stops all others. In PostgreSQL only those wait for it
that get the same message."""
