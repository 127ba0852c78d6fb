"""Snapshots of the state, which Spark writes now and then, beside the changes of each batch.

It does so after the batch, in a thread of its own: a power loss may find one that was not synchronised yet, of whatever
batch. Spark skips it (AutoSnapshotLoader), as long as the one before is there.
"""

import io
import json
import zipfile
from typing import Any

from streaming.checkpoint.folder import Checkpoint

STATE = "state/0"
"""Spark's folder of the first stateful operator; ours is the only one."""
SNAPSHOT = ".zip"
_METADATA = "metadata"
_FILES = "SSTs"


def torn_snapshots(checkpoint: Checkpoint) -> tuple[str, ...]:
    """Those that are not what was written, or that name a file which is not (RocksDBFileManager: ``metadata``)."""
    return tuple(
        f"{STATE}/{partition}/{name}"
        for partition in checkpoint.names(STATE)
        if partition.isdigit()
        for name in checkpoint.names(f"{STATE}/{partition}")
        if name.endswith(SNAPSHOT) and name.removesuffix(SNAPSHOT).isdigit()
        if not _sound(checkpoint, f"{STATE}/{partition}", name)
    )


def _sound(checkpoint: Checkpoint, folder: str, name: str) -> bool:
    try:
        with zipfile.ZipFile(io.BytesIO(checkpoint.read(f"{folder}/{name}") or b"")) as packed:
            about = _about(packed.read(_METADATA))
    except (zipfile.BadZipFile, KeyError, ValueError):
        return False
    sizes = checkpoint.sizes(f"{folder}/{_FILES}")
    return all(sizes.get(one["dfsSstFileName"]) == one["sizeBytes"] for one in about.get("sstFiles", ()))


def _about(metadata: bytes) -> dict[str, Any]:
    """It begins with a line that says its version."""
    found = json.loads(metadata.partition(b"\n")[2])
    if not isinstance(found, dict):
        raise ValueError("no object")  # noqa: TRY004  (as json says it)
    return found
