"""What an operator runs on a Delta table from time to time: ``python -m torture.compacting TABLE OPTIONS_AS_JSON``."""

import json
import sys

from deltalake import DeltaTable

_FILE_BYTES = 16 << 20
"""A file of this size stays as it is: a run does not rewrite all of its rows again and again."""


def compact(address: str, options: dict[str, str]) -> int:
    """Compact it, remove files that it no longer has, write a checkpoint. Returns how many files were replaced."""
    table = DeltaTable(address, storage_options=options)
    replaced = table.optimize.compact(target_size=_FILE_BYTES)["numFilesRemoved"]
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    table.create_checkpoint()
    return int(replaced)


if __name__ == "__main__":
    print(compact(sys.argv[1], json.loads(sys.argv[2])))  # noqa: T201  (for who started it)
