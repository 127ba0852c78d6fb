"""Object stores: what is sent has its name when all of it is there, and nothing can be renamed."""

import re
from typing import Any

S3A = "s3a"
"""The one whose promises are known, and made use of."""


def scheme_of(path: str) -> str:
    """Of a path or URL as Hadoop has them; empty: it has none."""
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", path)
    return found[1] if found else ""


def in_store(path: str) -> bool:
    """Whether a folder is in such a store."""
    return scheme_of(path) == S3A


def bucket_of(path: str) -> str:
    """Of a folder in such a store; empty: Hadoop finds none in the path, or it is none's name."""
    found = re.match(rf"{S3A}://([A-Za-z0-9][A-Za-z0-9.-]*)(?:/|$)", path)
    return found[1] if found else ""


def send(files: Any, path: Any, content: bytes) -> None:
    """Make an object, or replace it, whole or not at all; ``files`` and ``path`` are Hadoop's."""
    stream = files.create(path, True)  # noqa: FBT003  (Hadoop's own: overwrite)
    try:
        stream.write(content)
    except BaseException:
        stream.abort()  # closing it would make an object of what is there
        raise
    stream.close()
