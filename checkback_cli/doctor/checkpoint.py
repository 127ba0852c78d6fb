"""The checkpoint folder, where it is on this machine: whether it can be used, and whose topics it belongs to."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from checkback.exceptions import ConfigurationError, JobFailedError
from checkback.operations.job_in_kafka import ClaimRecord
from checkback_cli.doctor.finding import Finding, ok, warning, wrong
from checkback_cli.doctor.machine import local_folder
from conf import Settings
from streaming.batch.stores import in_store
from streaming.checkpoint.grown import as_grown, growing_to, half_grown, ways_out
from streaming.checkpoint.place import on_this_machine, refuse_silent_master, refuse_unfit_place

_NEW = "name the folder that belongs to these topics, or start on a new one with 'checkback run --new-checkpoint'"


def about_master(settings: Settings) -> Iterator[Finding]:
    """Whether Spark's own master answers, where the job runs on a cluster of it."""
    master = settings.job.master
    if on_this_machine(master):
        return
    try:
        refuse_silent_master(master)
    except JobFailedError as error:
        yield wrong("master", str(error), "start it, or correct job.master")
        return
    if master.startswith("spark://"):
        yield ok("master", f"Spark's master answers at {master}")


def _unfit(settings: Settings) -> str:
    try:
        refuse_unfit_place(settings.job.checkpoint, settings.job.master)
    except ConfigurationError as error:
        return str(error)
    return ""


def _about_place(settings: Settings, unfit: str) -> Iterator[Finding]:
    if unfit:
        yield wrong("checkpoint", unfit, "as it says")
        return
    if in_store(settings.job.checkpoint) and not os.environ.get("AWS_ACCESS_KEY_ID"):
        yield warning("checkpoint", "AWS_ACCESS_KEY_ID is not set here", "set it, unless the machine has a role there")
    said = f"{settings.job.checkpoint} is not on this machine: only a start reads it"
    yield warning("checkpoint", said, "nothing, if the job starts; if not, it says what is wrong")


def about_checkpoint(settings: Settings, claim: ClaimRecord | None, ids: Mapping[str, str]) -> Iterator[Finding]:
    """Whether it is there, can be written to, and belongs to these topics.

    ``claim`` is who has the topics; ``ids`` are Kafka's own of them, by name, as far as they are known.
    """
    folder = local_folder(settings.job.checkpoint)
    unfit = _unfit(settings)
    if unfit or folder is None:
        yield from _about_place(settings, unfit)
        return
    there = next(one for one in (folder, *folder.parents) if one.exists())
    if not there.is_dir():
        yield wrong("checkpoint", f"{there} is not a folder", "name another one in job.checkpoint")
        return
    if not os.access(there, os.W_OK | os.X_OK):
        yield wrong(
            "checkpoint", f"{there} is not writable", "give it to the job's user, or run this command as that user"
        )
        return
    if not (folder / "metadata").exists() and not (folder / "checkback.json").exists():
        yield _empty(folder, claim)
        return
    facts, query = _read(folder / "checkback.json"), _read(folder / "metadata")
    if facts is None or query is None:
        torn = "checkback.json" if facts is None else "metadata"
        yield wrong("checkpoint", f"{folder / torn} is missing or torn", f"restore the folder, or {_NEW}")
        return
    names = [one.name for one in folder.iterdir()]
    facts, growing = as_grown(facts, names), growing_to(names)
    if growing is not None:
        todo = ways_out(growing, int(facts.get("state_partitions", growing)))
        yield wrong("checkpoint", half_grown(str(folder), growing), todo)
        return
    yield from mismatches(facts, str(query.get("id", "")), settings, claim, ids)


def mismatches(
    facts: Mapping[str, Any], query_id: str, settings: Settings, claim: ClaimRecord | None, ids: Mapping[str, str]
) -> Iterator[Finding]:
    """What in a checkpoint's own facts does not fit to settings and Kafka."""
    prefix = settings.kafka.topic_prefix
    now = {
        "segment_size": settings.transactions.segment_size,
        "state_partitions": settings.job.state_partitions,
        "topic_prefix": prefix,
    }
    found = []
    for name, value in now.items():
        if name in facts and facts[name] != value:
            said = f"it has {name} = {facts[name]}, and the settings say {value}"
            grow = f", or stop the job and type 'checkback grow --state-partitions {value}'"
            others = grow if name == "state_partitions" else f", or {_NEW}"
            found.append(wrong("checkpoint", said, f"set it back{others}"))
    for name in ("half", "op"):
        known, seen = facts.get(f"{name}_topic_id"), ids.get(f"{prefix}{name}")
        if known and seen and not same_id(str(known), seen):
            found.append(wrong("checkpoint", f"{prefix}{name} was deleted and made again since it was begun", _NEW))
    if claim is not None and query_id and claim.query_id != query_id:
        said = f"another checkpoint was the last to read these topics: {claim}"
        found.append(wrong("checkpoint", said, _NEW))
    yield from found
    if not found and claim is None and not ids:
        yield ok(
            "checkpoint", f"{settings.job.checkpoint} fits the settings; whose topics it belongs to, Kafka has to say"
        )
    elif not found:
        yield ok("checkpoint", f"{settings.job.checkpoint} belongs to these topics")


def same_id(one: str, other: str) -> bool:
    """Whether two spellings are the same id: Java writes base 64, Python a UUID."""
    return _id_bytes(one) == _id_bytes(other)


def _id_bytes(text: str) -> bytes | str:
    import base64
    import uuid

    try:
        return uuid.UUID(text).bytes
    except ValueError:
        pass
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/") + "==", validate=False)
    except ValueError:
        return text


def _empty(folder: Path, claim: ClaimRecord | None) -> Finding:
    if claim is not None:
        said = f"{folder} has none, and these topics belong to another one: {claim}"
        return wrong("checkpoint", said, _NEW)
    return ok("checkpoint", f"{folder} has none yet: the first start makes it")


def _read(file: Path) -> dict[str, Any] | None:
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return said if isinstance(said, dict) else None
