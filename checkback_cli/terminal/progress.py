"""Shows on standard error how far long work is; only on a terminal, so that scripts hear nothing of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from checkback.kafka.record_ranges import Tell, tell_nobody

_SHOWN_AFTER_SECONDS = 0.5


@contextmanager
def progress() -> Iterator[Tell]:
    """Something to be told of what is read: a line for each topic, which goes when the block ends."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield tell_nobody
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (TextColumn("Reading {task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True)
    tasks: dict[str, TaskID] = {}
    begun = monotonic()

    def tell(what: str, done: int, whole: int) -> None:
        if monotonic() - begun < _SHOWN_AFTER_SECONDS:
            return
        bar.start()
        if what not in tasks:
            tasks[what] = bar.add_task(what, total=whole or None)
        bar.update(tasks[what], completed=done, total=whole or None)

    try:
        yield tell
    finally:
        bar.stop()
