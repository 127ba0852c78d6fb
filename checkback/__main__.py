"""``python -m checkback``, and what the script ``checkback`` runs."""

import sys
from collections.abc import Callable
from importlib import import_module

from checkback.installing import job
from checkback.version import __version__


def command() -> Callable[[], None]:
    """The command line, which is in the other distribution; without that one, what says so."""
    try:
        run: Callable[[], None] = import_module("checkback_cli").run
    except ModuleNotFoundError as error:
        missing = f"The command line is not here ({error.name} is missing): {job()}"
        return lambda: _without(missing)
    return run


def main() -> None:
    """Run the command line."""
    command()()


def _without(missing: str) -> None:
    if sys.argv[1:] != ["--version"]:
        sys.exit(missing)
    sys.stdout.write(f"checkback {__version__}\n")


if __name__ == "__main__":
    main()
