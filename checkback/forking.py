"""Forks. A child has its parent's memory and open files, and none of its threads: what holds a client is its parent's.

A child that used a client would write into its parent's connections, or wait for a thread that is not there.
"""

import os
import sys
import traceback
from typing import NoReturn

from checkback.exceptions import ConfigurationError

_WENT_WRONG = 1


def in_child_of(process: int) -> bool:
    """Whether this is a child of the process with this id, in which something was made."""
    return process != os.getpid()


def belongs_to_parent(what: str) -> str:
    """What to say of it in a child."""
    return (
        f"This {what} was made in another process, whose threads a fork leaves behind: make one in each process, after "
        "the fork."
    )


def refuse_in_child(process: int, what: str) -> None:
    """Refuse in a child what was made in this process.

    Raises:
        ConfigurationError: this is another process.
    """
    if in_child_of(process):
        raise ConfigurationError(belongs_to_parent(what))


def end_child(error: BaseException | None) -> NoReturn:
    """End this process as it would have ended by itself, but for what its parent has registered to be done at the end.

    ``error``: what its code has raised: :class:`SystemExit`, or anything else. multiprocessing does the same.
    """
    status = 0
    if isinstance(error, SystemExit):
        code = error.code
        status = 0 if code is None else code if isinstance(code, int) else _WENT_WRONG
        if code is not None and not isinstance(code, int):
            sys.stderr.write(f"{code}\n")
    elif error is not None:
        status = _WENT_WRONG
        traceback.print_exception(error)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)
