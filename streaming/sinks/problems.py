"""What went wrong in Java, or anywhere, as part of a sentence."""

from py4j.protocol import Py4JJavaError


def first_line(error: Exception) -> str:
    """The first line an exception says, without Java's stack and without a full stop."""
    said = str(error.java_exception.toString()) if isinstance(error, Py4JJavaError) else str(error)
    return next(iter(said.strip().splitlines()), repr(error)).rstrip(".")
