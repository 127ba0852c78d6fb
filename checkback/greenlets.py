"""gevent and eventlet replace threads by greenlets: all of a process share one thread, and each can block it."""

import sys

from checkback.exceptions import ConfigurationError

_PATCHED = (("gevent.monkey", "is_module_patched", "threading"), ("eventlet.patcher", "is_monkey_patched", "thread"))


def greenlet_library() -> str:
    """The library that has replaced the threads of this process; empty: none has."""
    for name, is_patched, threads in _PATCHED:
        if name in sys.modules and getattr(sys.modules[name], is_patched)(threads):
            return name.partition(".")[0]
    return ""


def refuse_greenlets(what: str, why: str) -> None:
    """Refuse what does not work among greenlets.

    Raises:
        ConfigurationError: this process has greenlets for threads.
    """
    library = greenlet_library()
    if library:
        raise ConfigurationError(f"{what} does not work in a process patched by {library}: {why}")
