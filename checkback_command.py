"""The script ``checkback``, beside the package of that name: Ctrl-C ends it at once while that is still imported.

``spark-submit`` takes this file, with ``run`` and its options behind it: see :doc:`/cluster`.
"""

import signal


def main() -> None:
    """Import the command, and run it; from there on Ctrl-C is the command's.

    While modules are imported there is nothing to finish, and a KeyboardInterrupt would be told with the whole stack.
    """
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from checkback.__main__ import command  # noqa: PLC0415  (what the lines above are for)

    run = command()
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, handler)
    run()


if __name__ == "__main__":
    main()
