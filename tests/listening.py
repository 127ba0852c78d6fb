"""What a process and those that it started listen on."""

import contextlib

import psutil


def addresses(process: psutil.Process) -> set[str]:
    """Addresses of all sockets on which these processes wait for connections; ``0.0.0.0`` and ``::`` are everywhere."""
    found = set()
    for one in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            listening = [each for each in one.net_connections(kind="tcp") if each.status == psutil.CONN_LISTEN]
            found |= {each.laddr.ip.removeprefix("::ffff:") for each in listening}
    return found
