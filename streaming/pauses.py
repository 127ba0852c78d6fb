"""When a message is to be tried again, by the job's clock. No Kafka, no clock of its own."""

from checkback.protocol import DELIVER_AT, MAX_MS_DIGITS
from streaming.headers import Headers


def by_this_clock(headers: Headers, written_ms: int, now_ms: int) -> list[tuple[str, bytes | None]]:
    """The headers of a message that a consumer has sent back, with its pause counted from now on.

    The consumer said when to deliver it, and wrote the record, by one clock: between them lies the pause, however
    wrong that clock is. One that is two hours behind would have no pause at all.

    Args:
        headers: as the consumer wrote them.
        written_ms: the record's time, by the clock of who wrote it.
        now_ms: by the job's clock.
    """
    return [
        (name, _counted(content, written_ms, now_ms) if name == DELIVER_AT else content) for name, content in headers
    ]


def _counted(content: bytes | None, written_ms: int, now_ms: int) -> bytes | None:
    if content is None or not content.isdigit() or len(content) > MAX_MS_DIGITS:
        return content  # the job says what is wrong with it
    return str(min(now_ms + max(0, int(content) - written_ms), 10**MAX_MS_DIGITS - 1)).encode()
