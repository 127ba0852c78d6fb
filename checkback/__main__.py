"""``checkback`` and ``python -m checkback``."""

import sys


def main() -> None:
    """Run the command line; without its packages, say which extra has them."""
    try:
        from checkback.cli import run  # noqa: PLC0415  (its packages are in an extra)
    except ModuleNotFoundError as error:
        sys.exit(f"The command line needs {error.name}: install 'checkback[job]'.")
    run()


if __name__ == "__main__":
    main()
