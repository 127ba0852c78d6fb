"""What went wrong in Java, or anywhere, in the words of a destination."""

from py4j.protocol import Py4JJavaError

from checkback.exceptions import DestinationError


def first_line(error: Exception) -> str:
    """The first line an exception says, without Java's stack and without a full stop."""
    said = str(error.java_exception.toString()) if isinstance(error, Py4JJavaError) else str(error)
    return next(iter(said.strip().splitlines()), repr(error)).rstrip(".")


def could_not_take(destination: str, batch: int, problem: str) -> DestinationError:
    """The error for a batch that a destination did not get."""
    return DestinationError(
        f"Destination {destination} could not take batch {batch}: {problem}. Nothing is lost: put it right and start "
        "the job again."
    )
