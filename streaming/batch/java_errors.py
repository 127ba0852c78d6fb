"""What went wrong in Java, or anywhere, in the words of a destination."""

from typing import Any

from py4j.protocol import Py4JJavaError

from checkback.exceptions import DestinationError

CAUSE = "; cause: "
_OF_POSTGRESQL = "org.postgresql.util.PSQLException: "


def first_line(error: Exception) -> str:
    """The first line of an exception, without Java's stack and without a full stop, and that of its deepest cause."""
    java: Any = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    lines = [str(java.toString()).removeprefix(_OF_POSTGRESQL) if isinstance(error, Py4JJavaError) else str(error)]
    while java is not None and (cause := java.getCause()) is not None:
        lines[1:], java = [str(cause.toString())], cause
    first, *deepest = (next(iter(line.strip().splitlines()), repr(error)).rstrip(".") for line in lines)
    return CAUSE.join([first, *(line for line in deepest if line not in first)])


def could_not_take(destination: str, batch: int, problem: str) -> DestinationError:
    """The error for a batch that a destination did not get."""
    return DestinationError(
        f"Destination {destination} could not take batch {batch}: {problem}. The batch is not lost: correct this and "
        "start the job again."
    )
