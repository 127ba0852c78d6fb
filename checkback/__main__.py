"""``checkback`` and ``python -m checkback``."""

import sys
from importlib import import_module

from checkback.installing import job
from checkback.version import __version__


def main() -> None:
    """Run the command line, which is in the other distribution; without that one, say what to install."""
    try:
        command = import_module("checkback_cli")
    except ModuleNotFoundError as error:
        if sys.argv[1:] == ["--version"]:
            sys.stdout.write(f"checkback {__version__}\n")
            return
        sys.exit(f"The command line is not here ({error.name} is missing): {job()}")
    command.run()


if __name__ == "__main__":
    main()
