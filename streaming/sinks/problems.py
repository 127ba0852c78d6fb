"""What went wrong in Java, or anywhere, as part of a sentence."""

from py4j.protocol import Py4JJavaError

from checkback.exceptions import ConfigurationError
from streaming.sinks.folders import Folder


def first_line(error: Exception) -> str:
    """The first line an exception says, without Java's stack and without a full stop."""
    said = str(error.java_exception.toString()) if isinstance(error, Py4JJavaError) else str(error)
    return next(iter(said.strip().splitlines()), repr(error)).rstrip(".")


def open_folder(destination: str, root: Folder) -> list[str]:
    """Make a destination's folder, and give the names in it.

    Raises:
        ConfigurationError: it cannot be made or read.
    """
    try:
        root.make("")
        return root.children()
    except Exception as error:  # Java's exceptions come as py4j's
        raise ConfigurationError(
            f"sinks.tables.{destination}: the folder {root.uri} cannot be made or read: {first_line(error)}."
        ) from error
